"""What memory snapshots, traces and the page of `assay run` cost, and how large they are.

    python3 bench/activity/overhead.py time [--launches 3000] [--rounds 5]   # processor time, with and without, in turn
    python3 bench/activity/overhead.py size [--events 1000000]               # of the files for that many events

`time` prints, for each set of files, the median over the rounds of its time over the time without in the same round: what else the machine
does changes both.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VARIANTS = {"--memory": ["--memory", "m.pickle"], "--memory --trace": ["--memory", "m.pickle", "--trace", "t.json"],
            "--html": ["--html", "p.html"],
            "all three": ["--memory", "m.pickle", "--trace", "t.json", "--html", "p.html"]}


def processor_seconds(command, folder):
    """Of a command and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_time(options, folder):
    nvcc = ["nvcc", "-g", "-lineinfo", "-cudart", "shared", "-arch=sm_90", "-o", "many", HERE / "many.cu"]
    subprocess.run(nvcc, cwd=folder, check=True)
    program = ["--", "./many", str(options.launches)]
    run = [options.assay, "run", "--threads", "1", "--quiet"]
    seconds = {name: [] for name in ["without", *VARIANTS]}
    for _ in range(options.rounds):
        seconds["without"].append(processor_seconds([*run, *program], folder))
        for name, files in VARIANTS.items():
            seconds[name].append(processor_seconds([*run, *files, *program], folder))
    print(f"{options.launches} launches of 65,536 threads, each with an allocation, a fill and a free; {options.rounds} rounds\n")
    print("| files | processor time, s (least) | more than without (median of the rounds) |\n| --- | --- | --- |")
    print(f"| none | {min(seconds['without']):.2f} | |")
    for name in VARIANTS:
        ratio = statistics.median(a / b for a, b in zip(seconds[name], seconds["without"]))
        print(f"| {name} | {min(seconds[name]):.2f} | {100 * (ratio - 1):.1f} % |")


def measure_size(options, folder):
    """A quarter each of allocations, copies, kernels and releases, as the runtime library writes them."""
    with open(folder / "events", "w") as file:
        for i in range(1, options.events // 4 + 1):
            at = i * 1e-4
            for event in (
                    {"event": "allocation", "id": i, "address": 0x7F0000000000 + 4096 * i, "bytes": 4096, "label": "cudaMalloc",
                     "host": False, "stack": 0, "seconds": at},
                    {"event": "operation", "id": 2 * i, "stream": i % 4, "kind": "copy", "called": at + 1e-6, "returned": at + 2e-6,
                     "begin": at + 1e-5, "end": at + 2e-5, "graph": False, "bytes": 4096, "from_host": True, "to_host": False},
                    {"event": "operation", "id": 2 * i + 1, "stream": i % 4, "kind": "kernel", "called": at + 3e-6,
                     "returned": at + 4e-6, "begin": at + 2e-5, "end": at + 5e-5, "graph": False, "kernel": "_Z5twicePfi",
                     "grid": [4, 1, 1], "block": [128, 1, 1], "shared_bytes": 0, "warp_instructions": 64, "fault": ""},
                    {"event": "release", "id": i, "seconds": at + 9e-5, "held": False, "counted": False, "never_written": 0,
                     "never_read": 0, "last_use": at + 5e-5, "writer": "", "file": "", "line": 0}):
                file.write(json.dumps(event, separators=(",", ":")) + "\n")
    print("| file | MB | s |\n| --- | --- | --- |")
    for option, name in (("--memory", "m.pickle"), ("--trace", "t.json"), ("--trace", "t.json.gz"), ("--html", "p.html")):
        begun = time.time()
        subprocess.run([options.assay, "events", "events", option, name], cwd=folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        print(f"| {option} {name} | {os.path.getsize(folder / name) / 1e6:.1f} | {time.time() - begun:.1f} |")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=["time", "size"])
    arguments.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    arguments.add_argument("--launches", type=int, default=3000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--events", type=int, default=1_000_000)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (measure_time if options.what == "time" else measure_size)(options, Path(folder))


if __name__ == "__main__":
    main()
