"""What memory snapshots, traces and the page of `assay run` cost, and how large they are.

    python3 bench/activity/overhead.py time [--launches 500] [--rounds 5] [--program './softmax 2000 784 0 2']
                                                                             # processor time, with and without files
    python3 bench/activity/overhead.py table [--rounds 9] [--built FOLDER]   # the same for the programs of docs/measurements/activity.md
    python3 bench/activity/overhead.py size [--events 1000000]               # of the files for that many events, made up
    python3 bench/activity/overhead.py program [--launches 100000]           # of the files of a program that was run

`time` runs a program with and without files at the same time on one core, so that whatever else the machine does slows all of them down
alike. Runs one after the other differ by more than the files cost.

`--built FOLDER` has the programs `many` and `cuda_host` already, for a machine without nvcc (`overhead.py build --built FOLDER` makes them).
"""

import argparse
import json
import os
import shlex
import shutil
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


def processor_seconds(commands, folder):
    """Of each command and all that it starts; all at the same time, on the core of this process."""
    running = {}
    for name, command in commands.items():
        own = folder / name.replace(" ", "")
        shutil.rmtree(own, ignore_errors=True)  # file systems take longer to replace a file than to make one
        own.mkdir()
        started = subprocess.Popen(command, cwd=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        running[started.pid] = name
    seconds = {}
    while running:
        process, status, used = os.wait4(-1, 0)
        name = running.pop(process)
        if status != 0:
            raise SystemExit(f"with {name}: the program ended with {status}")
        seconds[name] = used.ru_utime + used.ru_stime
    return seconds


# Workloads of bench/workloads.h (name, n, k, repeats) and launches of many.cu (launches, threads of each).
PROGRAMS = ["cuda_host softmax 2048 784 3", "cuda_host reduction 4194304 16 6", "cuda_host transpose 1024 0 12",
            "cuda_host matmul_tiled 256 256 6", "cuda_host histogram 2097152 16 8", "many 500", "many 10000 256"]


def build(folder, *names):
    sources = {"many": HERE / "many.cu", "cuda_host": HERE.parent / "cuda_host.cu"}
    for name in names:
        subprocess.run(["nvcc", "-O3", "-std=c++20", "-g", "-lineinfo", "-cudart", "shared", "-arch=sm_90", "-I", HERE.parent, "-o", name,
                        sources[name]], cwd=folder, check=True)


def measure_time(options, folder):
    program = shlex.split(options.program)
    if not program:
        build(folder, "many")
        program = [str(folder / "many"), str(options.launches)]
    seconds, ratios = cost_of(program, options, folder)
    print(f"{' '.join(program)}: {statistics.median(seconds):.2f} s without files; {options.rounds} rounds\n")
    print("| files | more processor time: median of the rounds (least and most) |\n| --- | --- |")
    for name, list_ in ratios.items():
        print(f"| {name} | {text_of(list_)} |")


def measure_table(options, folder):
    built = Path(options.built) if options.built else folder
    if not options.built:
        build(folder, "many", "cuda_host")
    print(f"{options.rounds} rounds; more processor time: median (least and most)\n")
    print(f"| program | time without files, s | {' | '.join(f'`{name}`' for name in VARIANTS)} |\n| --- |{' --- |' * (1 + len(VARIANTS))}")
    for words in PROGRAMS:
        name, *rest = words.split()
        seconds, ratios = cost_of([str(built / name), *rest], options, folder)
        print(f"| {words} | {statistics.median(seconds):.2f} | {' | '.join(text_of(list_) for list_ in ratios.values())} |", flush=True)


def text_of(ratios):
    return f"{statistics.median(ratios):.1f} % ({min(ratios):.1f} to {max(ratios):.1f})"


def cost_of(program, options, folder):
    """Seconds without files, and per cent more with them, of each round."""
    run = [options.assay, "run", "--threads", "1", "--quiet"]
    commands = {name: [*run, *files, "--", *program] for name, files in {"none": [], **VARIANTS}.items()}
    seconds, ratios = [], {name: [] for name in VARIANTS}
    cores = sorted(os.sched_getaffinity(0))
    for turn in range(options.rounds):
        os.sched_setaffinity(0, {cores[turn % len(cores)]})
        names = list(commands)
        names = names[turn % len(names):] + names[:turn % len(names)]
        used = processor_seconds({name: commands[name] for name in names}, folder)
        seconds.append(used["none"])
        for name in VARIANTS:
            ratios[name].append(100 * (used[name] / used["none"] - 1))
    return seconds, ratios


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
                    {"event": "release", "id": i, "seconds": at + 9e-5, "called": at + 9e-5, "held": False, "counted": False, "never_written": 0,
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
    build(folder, "many")
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
    arguments.add_argument("what", choices=["time", "table", "build", "size", "program"])
    arguments.add_argument("--assay", type=os.path.abspath, default=str(ROOT / "build/release/bin/assay"))
    arguments.add_argument("--launches", type=int, help="500, or 100000 of a program")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--program", default="", help="to time, with its arguments; otherwise many.cu")
    arguments.add_argument("--built", default="", help="folder of the programs of `table`")
    arguments.add_argument("--events", type=int, default=1_000_000)
    options = arguments.parse_args()
    options.launches = options.launches or (100_000 if options.what == "program" else 500)
    if options.what == "build":
        build(Path(options.built), "many", "cuda_host")
        return
    with tempfile.TemporaryDirectory() as folder:
        {"time": measure_time, "table": measure_table, "size": measure_size, "program": measure_program}[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
