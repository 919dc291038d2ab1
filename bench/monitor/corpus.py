"""The corpus's kernels in production: each behind a shim, with random activations, watched by assayd; the runtime's own checks watch the monitor.

    python3 bench/monitor/corpus.py [--calls 100] [--seconds 600] [WORD...]

For each kernel: at which call assayd raised an alarm, and which; of correct kernels, that it raised none. Every call is sampled. The
process runs on the virtual GPU with all checks on, so a race or a stream that the monitor did not order would be a finding there.
"""

import argparse
import ctypes
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
# Operators whose inputs are activations and weights, with shapes of a call.
SHAPES = {"rmsnorm": {"N": 24, "D": 512}, "add_rmsnorm": {"N": 24, "D": 512}, "swiglu": {"T": 24, "H": 384}, "gelu": {"n": 8192},
          "gemm": {"M": 24, "N": 40, "K": 256}, "softmax": {"N": 24, "C": 512}}
NUMERIC = "ABCK"


def serve(shim, contract_path, calls):
    """An application: calls the function of a shim with random inputs."""
    contract = tomllib.loads(Path(contract_path).read_text())
    operator = Path(contract_path).stem
    runtime = ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)
    function = getattr(ctypes.CDLL(shim), contract["kernel"]["entry"])
    shape, rng = SHAPES[operator], numpy.random.default_rng(1)
    stream = ctypes.c_void_p()
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    device, host = {}, {}
    for name, tensor in contract["tensors"].items():
        extents = [int(e) if str(e).isdigit() else shape[e] for e in tensor["shape"]]
        host[name] = (tensor, extents)
        device[name] = ctypes.c_void_p()
        width = {"bf16": 2, "f16": 2, "f32": 4}[tensor["dtype"]]
        assert runtime.cudaMalloc(ctypes.byref(device[name]), ctypes.c_size_t(width * int(numpy.prod(extents)))) == 0
    arguments = []
    for name in contract["kernel"]["args"]:
        if name in device:
            arguments.append(device[name])
        elif name == "stream":
            arguments.append(stream)
        elif name in shape:
            wide = contract["dims"][name].get("type") == "i64"
            arguments.append((ctypes.c_int64 if wide else ctypes.c_int)(shape[name]))
        else:
            scalar = contract["scalars"][name]
            arguments.append(ctypes.c_float(scalar.get("values", scalar.get("range", [scalar.get("value")]))[0]))
    for _ in range(calls):
        for name, (tensor, extents) in host.items():
            if tensor.get("role") == "out":
                continue
            spread = 0.1 if tensor.get("values") == "weights" else 1.5
            values = (rng.standard_normal(extents) * spread).astype(numpy.float32)
            data = (values.view(numpy.uint32) >> 16).astype(numpy.uint16) if tensor["dtype"] == "bf16" else values
            pinned = numpy.ascontiguousarray(data)
            assert runtime.cudaMemcpyAsync(device[name], pinned.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(pinned.nbytes), 1, stream) == 0
            runtime.cudaStreamSynchronize(stream)
        function(*arguments)
        assert runtime.cudaStreamSynchronize(stream) == 0
        time.sleep(0.02)  # assayd has one sample after the other


class Assayd:
    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, "--socket", f"{folder}/s", "--state", folder, "--listen", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = re.search(r"http://\S+?(?=/metrics)", self.process.stdout.readline()).group()

    def ask(self, path):
        with urllib.request.urlopen(self.address + path) as answer:
            return answer.read().decode()

    def total(self, metric):
        return sum(float(line.split()[-1]) for line in self.ask("/metrics").splitlines() if line.startswith(metric + "{"))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def watch(options, operator, source):
    """One kernel: samples judged, the alarm, findings of the runtime's checks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contract = folder / f"{operator}.toml"
        text = (ROOT / "corpus" / operator / "contract.toml").read_text()
        text = re.sub(r"(?m)^source\s*=.*$", f'source = "{source}"', text, count=1)
        contract.write_text(text + "\n[monitor]\nevery = 1\n")
        built = subprocess.run([options.assay, "shim", contract, "-o", folder / "libkernel.so"], capture_output=True, text=True)
        if built.returncode != 0:
            return {"problem": built.stderr.strip()[-200:]}
        assayd = Assayd(str(Path(options.assay).with_name("assayd")), name)
        try:
            libraries = str(Path(options.assay).resolve().parents[1] / "lib")
            environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "ASSAYD_SOCKET": f"{name}/s", "ASSAY_CHECK": "all",
                           "ASSAY_REPORT": f"{name}/events", "ASSAY_QUIET": "1"}
            done = subprocess.run([sys.executable, __file__, "--serve", folder / "libkernel.so", contract, str(options.calls)],
                                  env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                return {"problem": done.stderr.strip()[-300:]}
            deadline = time.time() + 30
            while time.time() < deadline and (assayd.total("assay_samples_judged_total") + assayd.total("assay_samples_dropped_total")
                                              < options.calls):
                time.sleep(0.2)
            alarms = sorted(json.loads(assayd.ask("/alarms")).values(), key=lambda alarm: alarm["call"])
            events = [json.loads(line) for line in Path(name, "events").read_text().splitlines()]
            findings = [event["finding"]["kind"] for event in events if event["event"] == "finding"]
            return {"judged": int(assayd.total("assay_samples_judged_total")), "dropped": int(assayd.total("assay_samples_dropped_total")),
                    "alarms": alarms, "findings": sorted(set(findings) - {"leak"})}
        finally:
            assayd.close()


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("words", nargs="*")
    arguments.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    arguments.add_argument("--calls", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=600)
    options = arguments.parse_args()
    ends = time.time() + options.seconds
    jobs = []
    for operator in SHAPES:
        for kind in ("correct", "wrong"):
            for source in sorted((ROOT / "corpus" / operator / kind).glob("*.cu")):
                letter = re.search(r"// assay: class (\w)", source.read_text())
                if kind == "correct" or letter.group(1) in NUMERIC:
                    jobs.append((operator, kind, source))
    jobs = [job for job in jobs if not options.words or any(word in f"{job[0]}/{job[1]}/{job[2].stem}" for word in options.words)]
    random.Random(1).shuffle(jobs)
    print("| kernel | samples judged | dropped | alarm | at call | findings of the checks |\n| --- | --- | --- | --- | --- | --- |")
    for operator, kind, source in jobs:
        if time.time() > ends:
            break
        seen = watch(options, operator, source)
        if "problem" in seen:
            print(f"| {operator}/{kind}/{source.stem} | – | – | {seen['problem']} | | |", flush=True)
            continue
        alarm = seen["alarms"][0] if seen["alarms"] else {}
        print(f"| {operator}/{kind}/{source.stem} | {seen['judged']} | {seen['dropped']} | {alarm.get('alarm', '–')} | "
              f"{alarm.get('call', '–')} | {', '.join(seen['findings']) or 'none'} |", flush=True)


if __name__ == "__main__":
    main()
