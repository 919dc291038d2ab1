"""What a GPU is needed for, with a stand-in: a CUDA toolkit whose runtime is the virtual GPU's, in one of two conditions. A sound one
computes as it should; of a broken one, a bit of what is read back from it is stuck. The programs take either for a real GPU."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import PROGRAM, ROOT, needs_program

from assay import paths

INPUTS = ROOT / "tests" / "commands" / "inputs"
# The runtime of the broken GPU. Everything but cudaMemcpy is found in the library that it needs.
BROKEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  void* runtime = dlopen("libvirtualgpu.so", RTLD_LAZY);
  const int status = ((int (*)(void*, const void*, size_t, int))dlsym(runtime, "cudaMemcpy"))(to, from, bytes, kind);
  if (kind == 2)  /* to the host */
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      unsigned* word = (unsigned*)((char*)to + i);
      if (*word == 0x40c00000u) *word |= 1u << 21;  /* 6 becomes 7 */
    }
  return status;
}
"""


def write_npy(path, values):
    path.parent.mkdir(exist_ok=True)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
    header = header.ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<%df" % len(values), *values))


@needs_program
@unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
class StandInGpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("scale.toml", "scale.ptx", "signer.pem", "signer.pub.pem"):
            shutil.copy(INPUTS / name, self.folder)
        virtual = paths.library("libcudart.so.13")
        for name in ("sound", "broken"):
            toolkit = self.folder / name
            (toolkit / "bin").mkdir(parents=True)
            (toolkit / "lib64").mkdir()
            (toolkit / "bin" / "nvcc").write_text("#!/bin/sh\nexit 1\n")
            (toolkit / "bin" / "nvcc").chmod(0o755)
        os.symlink(virtual, self.folder / "sound" / "lib64" / "libcudart.so.13")
        os.symlink(virtual, self.folder / "broken" / "lib64" / "libvirtualgpu.so")
        (self.folder / "none.c").write_text("")
        (self.folder / "broken.c").write_text(BROKEN)
        self.run_well("cc", "-shared", "-o", "libvirtualgpu.so", "-Wl,-soname,libvirtualgpu.so", "none.c")
        self.run_well("cc", "-shared", "-fPIC", "-o", "broken/lib64/libcudart.so.13", "-Wl,-soname,libcudart.so.13", "broken.c",
                      "-Wl,--no-as-needed", "-L.", "-lvirtualgpu", "-ldl")

    def run_well(self, *words):
        subprocess.run(words, cwd=self.folder, check=True)

    def assay(self, gpu, *words):
        toolkit = self.folder / gpu
        variables = dict(os.environ, CUDA_HOME=str(toolkit), PATH="%s/bin:/usr/bin:/bin" % toolkit, NO_COLOR="1",
                         XDG_CACHE_HOME=str(self.folder / "cache"))
        return subprocess.run([str(PROGRAM), *words], cwd=self.folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", check=False)

    def fault(self, gpu, capture):
        done = self.assay(gpu, "replay", capture, "--device", "cuda", "--json", "report.json")
        self.assertIn(done.returncode, (0, 1), done.stdout)
        report = json.loads((self.folder / "report.json").read_text())
        return report["fault"], [one["answer"] for one in report["replays"]]

    def captured(self, outputs):
        write_npy(self.folder / "in" / "x.npy", [1, 2, 3, 4])
        write_npy(self.folder / "out" / "y.npy", outputs)
        self.assay("sound", "judge", "scale.toml", "--inputs", "in", "--outputs", "out", "--capture", "call.assaycap")
        return "call.assaycap"

    def test_whose_fault(self):
        flipped = self.captured([2, 4, 7, 8])
        self.assertEqual(self.fault("broken", flipped), ("hardware", ["wrong", "right", "wrong"]))
        self.assertEqual(self.fault("sound", flipped), ("transient", ["wrong", "right", "right"]))
        self.assertEqual(self.fault("sound", self.captured([2, 4, 6, 8])), ("none", ["right", "right", "right"]))
        kernel = self.folder / "scale.ptx"
        kernel.write_text(kernel.read_text().replace("add.f32 %f2, %f1, %f1", "mul.f32 %f2, %f1, 0f40400000"))
        self.assertEqual(self.fault("broken", self.captured([3, 6, 9, 12]))[0], "kernel")

    def test_a_certificate_for_both_devices(self):
        words = ("certify", "scale.toml", "--key", "signer.pem", "-o", "scale.assay.json", "--budget", "8", "--device", "virtual", "--device",
                 "cuda")
        done = self.assay("sound", *words)
        self.assertEqual(done.returncode, 0, done.stdout)
        (self.folder / "policy.toml").write_text('devices = ["virtual", "cuda"]\nproofs = ["bounds"]\n')
        good = self.assay("sound", "verify", "scale.assay.json", "--key", "signer.pub.pem", "--policy", "policy.toml", "--json", "good.json")
        self.assertEqual(good.returncode, 0, good.stdout)
        predicate = json.loads((self.folder / "good.json").read_text())["statement"]["predicate"]
        self.assertEqual([one["kind"] for one in predicate["devices"]], ["virtual", "cuda"])
        self.assertEqual({one["obligation"] for one in predicate["proofs"] if one["status"] == "proved"} & {"bounds", "race"}, {"bounds", "race"})
        profile = predicate["profile"]
        self.assertGreater(profile["elements"], 1000)
        self.assertEqual(len(profile["z_edges"]), len(profile["z_beyond"]))
        # A GPU that gives wrong numbers gets no certificate.
        (self.folder / "scale.assay.json").unlink()
        bad = self.assay("broken", *words[:-4], "--no-prove", "--device", "cuda")
        self.assertEqual(bad.returncode, 1, bad.stdout)
        self.assertFalse((self.folder / "scale.assay.json").exists())


if __name__ == "__main__":
    unittest.main()
