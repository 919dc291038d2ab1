"""What memory snapshots, traces and the page of `assay run` cost, and how large they are.

    python3 bench/activity/overhead.py time [--launches 3000] [--rounds 5]   # processor time, with and without, in turn
    python3 bench/activity/overhead.py size [--events 1000000]               # of the files for that many events, made up
    python3 bench/activity/overhead.py program [--launches 100000]           # of the files of a program that was run

`time` compares each run with the runs without files just before and after it: what else the machine does changes all three.
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
VARIANTS = {"--memory --trace": ["--memory", "m.pickle", "--trace", "t.json"],
            "--html": ["--html", "p.html"],
            "all three": ["--memory", "m.pickle", "--trace", "t.json", "--html", "p.html"]}


def processor_seconds(command, folder):
    """Of a command and all that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def build(folder):
    nvcc = ["nvcc", "-g", "-lineinfo", "-cudart", "shared", "-arch=sm_90", "-o", "many", HERE / "many.cu"]
    subprocess.run(nvcc, cwd=folder, check=True)


def measure_time(options, folder):
    build(folder)
    program = ["--", "./many", str(options.launches)]
    run = [options.assay, "run", "--threads", "1", "--quiet"]
    seconds, ratios = {name: [] for name in ["without", *VARIANTS]}, {name: [] for name in VARIANTS}
    begun, rounds = time.time(), 0
    while rounds < options.rounds and time.time() - begun < options.seconds:
        rounds += 1
        before = processor_seconds([*run, *program], folder)
        for name, files in VARIANTS.items():
            seconds[name].append(processor_seconds([*run, *files, *program], folder))
            after = processor_seconds([*run, *program], folder)
            seconds["without"].append(after)
            ratios[name].append(2 * seconds[name][-1] / (before + after))
            before = after
    print(f"{options.launches} launches of 65,536 threads, each with an allocation, a fill and a free; {rounds} rounds\n")
    print("| files | processor time, s (least) | more than without: median of the rounds (quartiles) |\n| --- | --- | --- |")
    print(f"| none | {min(seconds['without']):.2f} | |")
    for name in VARIANTS:
        low, middle, high = (100 * (ratio - 1) for ratio in statistics.quantiles(ratios[name]))
        print(f"| {name} | {min(seconds[name]):.2f} | {middle:.1f} % ({low:.1f} to {high:.1f}) |")


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


def measure_program(options, folder):
    """The events of a real run: small launches, each with an allocation, a fill and a free; all checks on."""
    build(folder)
    files = [part for name in ("--memory --trace", "--html") for part in VARIANTS[name]]
    begun = time.time()
    subprocess.run([options.assay, "run", "--quiet", *files, "--", "./many", str(options.launches), "256"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    seconds = time.time() - begun
    entries = len(json.loads((folder / "t.json").read_text())["traceEvents"])
    print(f"{options.launches} launches: {4 * options.launches} events of the program, {entries} entries of the trace; {seconds:.0f} s\n")
    print("| file | MB | bytes of an entry of the trace |\n| --- | --- | --- |")
    for name in ("m.pickle", "t.json", "p.html"):
        size = os.path.getsize(folder / name)
        print(f"| {name} | {size / 1e6:.1f} | {f'{size / entries:.0f}' if name == 't.json' else ''} |")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=["time", "size", "program"])
    arguments.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    arguments.add_argument("--launches", type=int, help="3000, or 100000 of a program")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=1e9, help="after which no round begins")
    arguments.add_argument("--events", type=int, default=1_000_000)
    options = arguments.parse_args()
    options.launches = options.launches or (100_000 if options.what == "program" else 3000)
    with tempfile.TemporaryDirectory() as folder:
        {"time": measure_time, "size": measure_size, "program": measure_program}[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
