"""Unmodified PyTorch programs under `assay run`: what they compute, what is found in them, and how fast they start."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, Tuple

from support import PROGRAM, needs_program, needs_torch_cuda

HERE = pathlib.Path(__file__).resolve().parent
# Where torch_on_virtual_gpu.Kernel launches.
LAUNCH_LINE = 1 + next(
    at for at, line in enumerate((HERE / "torch_on_virtual_gpu.py").read_text().splitlines())
    if "status = self.runtime.cudaLaunchKernel(" in line)

# A kernel that is launched on one element more than there is.
PAST_THE_END = """
import torch
from torch_on_virtual_gpu import INCREMENT, Kernel

def make_inputs():
    return torch.zeros(100, device="cuda")

def step(kernel, values):
    kernel(values, 101)

kernel = Kernel(INCREMENT, b"increment")
values = make_inputs()
step(kernel, values)
try:
    print(values.sum())
except RuntimeError as error:
    print("caught:", str(error).splitlines()[0])
"""

# A kernel on one stream, after an operator on another, with and without an event between them. That the operator was
# computed on the CPU does not order the two.
TWO_STREAMS = """
import torch
from torch_on_virtual_gpu import INCREMENT, Kernel

kernel = Kernel(INCREMENT, b"increment")
x = torch.zeros(64, device="cuda")
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x *= 2
    temporary = x + 1
    del temporary
if WAITS:
    torch.cuda.current_stream().wait_stream(side)
kernel(x, 64)
torch.cuda.synchronize()
"""

UNINITIALISED = """
import torch
from torch_on_virtual_gpu import INCREMENT, Kernel

kernel = Kernel(INCREMENT, b"increment")
right, wrong = torch.empty(64, device="cuda"), torch.empty(64, device="cuda")
right[:] = torch.rand(64, device="cuda")
kernel(right, 64)
wrong[:32].normal_()
kernel(wrong, 64)
torch.cuda.synchronize()
"""

# Which libraries torch opens to count the devices. NVML's would be that of the machine's own driver.
COUNT_DEVICES = """
import ctypes
import torch

opened = []

class Recorded(ctypes.CDLL):
    def __init__(self, name, *args, **kwargs):
        opened.append(name)
        super().__init__(name, *args, **kwargs)

ctypes.CDLL = Recorded
print(torch.cuda.device_count(), opened)
"""


def assay_run(*command: str) -> Tuple[subprocess.CompletedProcess, Dict[str, Any]]:
    """Runs Python under `assay run`, and returns how it ended and the report."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(HERE))
    environment.pop("ASSAY_SETTINGS", None)
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        ended = subprocess.run(
            [str(PROGRAM), "run", "--json", report, "--", sys.executable, *command],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if not os.path.exists(report):
            raise AssertionError(ended.stdout + ended.stderr)
        with open(report) as file:
            return ended, json.load(file)


def run_script(text: str) -> Tuple[subprocess.CompletedProcess, Dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w") as file:
            file.write(text)
        return assay_run(script)


@needs_program
@needs_torch_cuda
class TorchTest(unittest.TestCase):
    def test_programs(self) -> None:
        ended, report = assay_run("-m", "unittest", "torch_on_virtual_gpu")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([finding for finding in report["findings"] if finding["severity"] == "error"], [])

    def test_features(self) -> None:
        ended, report = assay_run("-m", "unittest", "torch_features_on_virtual_gpu")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual([finding for finding in report["findings"] if finding["severity"] == "error"], [])

    def test_out_of_bounds(self) -> None:
        ended, report = run_script(PAST_THE_END)
        self.assertEqual(ended.returncode, 0, "the script goes on after the access")
        finding = report["findings"][0]
        self.assertEqual(finding["kind"], "out-of-bounds")
        self.assertIn("just past the end of `y` (400 bytes)", finding["message"])
        launched, made = finding["evidence"]["launched_at"], finding["evidence"]["allocation"]
        self.assertEqual((os.path.basename(launched["file"]), launched["line"]), ("torch_on_virtual_gpu.py", LAUNCH_LINE))
        self.assertEqual([frame["function"] for frame in launched["stack"]], ["__call__", "step", "<module>"])
        self.assertEqual((os.path.basename(made["file"]), made["line"]), ("script.py", 6))
        self.assertRegex(ended.stderr, r"launched at .*py:\d+ in __call__, called at .*script.py:9 in step, called at .*script.py:13")
        self.assertRegex(ended.stderr, r"allocated at .*script.py:6 in make_inputs, called at .*script.py:12")

    def test_stream_order(self) -> None:
        for waits, kinds in ((False, {"data-race"}), (True, set())):
            _, report = run_script(TWO_STREAMS.replace("WAITS", str(waits)))
            self.assertEqual({finding["kind"] for finding in report["findings"]}, kinds)

    def test_initialisation(self) -> None:
        _, report = run_script(UNINITIALISED)
        self.assertEqual([finding["kind"] for finding in report["findings"]], ["uninitialized"])
        self.assertIn("offset 128", report["findings"][0]["message"])
        self.assertEqual(report["findings"][0]["evidence"]["launched_at"]["stack"][-1]["line"], 10)

    def test_device_count(self) -> None:
        ended, _ = run_script(COUNT_DEVICES)
        self.assertEqual(ended.stdout, "1 []\n")
        self.assertNotIn("Warning", ended.stderr)

    def test_start(self) -> None:
        def seconds(*command: str) -> float:  # of CPU time: the machine may be busy
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        plain = min(seconds(sys.executable, "-c", "import torch") for _ in range(2))
        ours = min(seconds(str(PROGRAM), "run", "--", sys.executable, "-c", "import torch") for _ in range(2))
        self.assertLess(ours, plain + 3)


if __name__ == "__main__":
    unittest.main()
