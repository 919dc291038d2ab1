"""The kernels of the corpus that have a slot in a training step, through `assay train` on the virtual GPU.

    python3 bench/train/corpus.py wrong --json wrong.json   # the cell that unmasks each numeric bug
    python3 bench/train/corpus.py right --seeds 5           # correct kernels: how many runs fail
    python3 bench/train/corpus.py wrong --json wrong.json --resume   # the runs that are not in the file yet

`wrong` takes the kernels of the classes A, B, C, H and K (corpus/README.md): those whose results are wrong.
What the others do (bounds, races, shapes that training does not have) is for `assay check`.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NUMERIC = "ABCHK"
SIZES = "--vocabulary 1024 --layers 1"
SEQUENCES = 16
# Sums over the occurrences of a token are long only in large batches.
LARGE_BATCHES = {"embedding_grad", "embedding_rmsnorm_grad"}


def operators(options):
    """The operators of the corpus whose formula computes what a slot computes, with the slot."""
    def slot_of(contract):
        shown = subprocess.run([options.assay, "train", contract, "--binding"], capture_output=True, text=True)
        return re.search(r'slot\s*=\s*"(\w+)"', shown.stdout).group(1) if shown.returncode == 0 else None
    contracts = sorted((ROOT / "corpus").glob("*/contract.toml"))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return [(contract, slot) for contract, slot in zip(contracts, pool.map(slot_of, contracts)) if slot]


def kernels(contract, kind):
    for source in sorted((contract.parent / ("correct" if kind == "right" else "wrong")).glob("*.cu")):
        letter = re.search(r"// assay: class (\w)", source.read_text())
        if kind == "right" or letter.group(1) in NUMERIC:
            yield source, letter.group(1) if letter else ""


def run(job, options):
    """One kernel, one seed: the result as `--json` writes it, or why there is none."""
    contract, slot, source, letter, seed = job
    row = {"operator": contract.parent.name, "kernel": source.stem, "class": letter, "slot": slot,
           "seed": seed}
    if time.time() > options.ends:
        return {**row, "verdict": "not run"}
    with tempfile.TemporaryDirectory() as folder:
        text = re.sub(r'(?m)^source\s*=.*$', f'source = "{source}"', contract.read_text(), count=1)
        own, result = Path(folder) / "contract.toml", Path(folder) / "result.json"
        own.write_text(text)
        sequences = SEQUENCES * (4 if slot in LARGE_BATCHES else 1)
        command = [options.assay, "train", own, "--json", result, "--seed", str(seed), "--threads", "1",
                   "--fresh", "--steps", str(options.steps), "--tokens", options.tokens,
                   "--optimizers", options.optimizers, "--sequences", str(sequences), *options.sizes.split()]
        if options.teacher_only:
            command.append("--teacher-only")
        begun = time.time()
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=max(1, options.ends - begun))
        except subprocess.TimeoutExpired:
            return {**row, "verdict": "not run"}
        row["seconds"] = time.time() - begun
        if not result.exists():
            return {**row, "verdict": "error", "why": done.stderr.strip().splitlines()[-1:]}
        report = json.loads(result.read_text())
    row["verdict"] = report["verdict"]
    row["why"] = report.get("inconclusive", [])
    row["kinds"] = [finding["kind"] for finding in report["findings"]]
    row["teacher"] = {name: report["teacher"].get(name) for name in
                      ("steps", "rejected_step", "log10_evidence", "tensor", "part")}
    row["states"] = [{name: state.get(name) for name in ("name", "calls", "elements", "seconds", "failed_site")}
                     for state in report["states"]]
    row["calls"], row["seconds_of_calls"] = report["calls"], report["seconds_of_calls"]
    row["cells"] = [{name: cell.get(name) for name in
                     ("tokens", "optimizer", "unmasked", "unmasked_step", "gap_step", "loss_gap", "noise", "unmasked_by")}
                    for cell in report["cells"]]
    return row


def key(row):
    return row["operator"], row["kernel"], row["seed"]


class Rows:
    """The rows so far, with what an earlier run left in the file; the file has all of them at any time."""

    def __init__(self, path, resume):
        self.path, self.lock = path, threading.Lock()
        earlier = json.loads(path.read_text()) if resume and path.exists() else []
        self.rows = {key(row): row for row in earlier if row["verdict"] != "not run"}

    def __contains__(self, job):
        return (job[0].parent.name, job[2].stem, job[4]) in self.rows

    def add(self, row):
        with self.lock:
            self.rows[key(row)] = row
            if self.path:
                unfinished = self.path.with_name(self.path.name + ".new")
                unfinished.write_text(json.dumps(self.all(), indent=1))
                os.replace(unfinished, self.path)

    def all(self):
        return [self.rows[name] for name in sorted(self.rows)]


def in_turn(found, seed, options):
    """The kernels to run with this seed: all, or one of each slot, in turn."""
    if not options.by_slot:
        return found
    slots = {}
    for job in found:
        slots.setdefault(job[1], []).append(job)
    return [jobs[seed % len(jobs)] for jobs in slots.values()]


def shown(cell):
    """By which signals a cell shows a fault: "loss 2, gradients 2, first batch". Steps count from 1."""
    words = {"loss": lambda s: f"loss {s['step'] + 1}", "gradients": lambda s: f"gradients {s['step'] + 1}",
             "calls": lambda s: s["state"]}
    found = {signal["signal"]: words[signal["signal"]](signal) for signal in cell["unmasked_by"]}
    return ", ".join(found[name] for name in words if name in found) or "masked"


def wrong_table(rows):
    cells = sorted({(cell["tokens"], cell["optimizer"]) for row in rows for cell in row.get("cells", [])},
                   key=lambda cell: (cell[0] != "zipf", cell))
    lines = ["| kernel | class | verdict |" + "".join(f" {tokens} + {optimizer} |" for tokens, optimizer in cells),
             "|" + " --- |" * (3 + len(cells))]
    by_signal, anywhere = collections.Counter(), 0
    for row in rows:
        found = {(cell["tokens"], cell["optimizer"]): cell for cell in row.get("cells", [])}
        texts = [shown(found[cell]) if cell in found else "–" for cell in cells]
        signals = {signal["signal"] for cell in found.values() for signal in cell["unmasked_by"]}
        by_signal.update(signals)
        anywhere += bool(signals)
        verdict = row["verdict"] if row["verdict"] != "fail" else ", ".join(dict.fromkeys(row["kinds"]))
        lines.append(f"| {row['operator']}/{row['kernel']} | {row['class']} | {verdict} |" +
                     "".join(f" {text} |" for text in texts))
    lines.append(f"\n{sum(row['verdict'] == 'fail' for row in rows)} of {len(rows)} fail; unmasked in at least one cell: {anywhere} "
                 f"({', '.join(f'{name} {count}' for name, count in by_signal.most_common())})")
    return lines


def right_table(rows):
    lines = ["| kernel | slot | runs | failed | not decided | calls judged | results judged | largest evidence, log10 | "
             "largest gap / noise in a cell | a call |", "|" + " --- |" * 10]
    for name in dict.fromkeys((row["operator"], row["kernel"]) for row in rows):
        own = [row for row in rows
               if (row["operator"], row["kernel"]) == name and row["verdict"] != "not run"]
        if not own:
            continue
        evidence = max((row["teacher"]["log10_evidence"] for row in own if "teacher" in row), default=0)
        cells = [cell for row in own for cell in row.get("cells", []) if cell["noise"]]
        ratio = max((cell["loss_gap"] / cell["noise"] for cell in cells), default=0)
        calls, spent = (sum(row.get(key, 0) for row in own) for key in ("calls", "seconds_of_calls"))
        judged = [sum(state[key] for row in own for state in row.get("states", [])) for key in ("calls", "elements")]
        lines.append("| {}/{} | {} | {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:.0f} ms |".format(
            *name, own[0]["slot"], len(own), sum(row["verdict"] == "fail" for row in own),
            sum(row["verdict"] not in ("pass", "fail") for row in own), *judged, evidence, ratio,
            1000 * spent / max(1, calls)))
    return lines


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("kind", choices=["wrong", "right"])
    arguments.add_argument("words", nargs="*", help="only kernels whose operator/name contains one of these")
    arguments.add_argument("--assay", default=str(ROOT / "assay"))
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--seeds", type=int, default=1, help="the last seed: so many runs of each kernel, each with its own")
    arguments.add_argument("--first-seed", type=int, default=1)
    arguments.add_argument("--by-slot", action="store_true",
                           help="each seed with one kernel of each slot, in turn: that many runs of a slot")
    arguments.add_argument("--steps", type=int, default=12)
    arguments.add_argument("--tokens", default="zipf,uniform")
    arguments.add_argument("--optimizers", default="sgd,adamw")
    arguments.add_argument("--sizes", default=SIZES, help="options of the model")
    arguments.add_argument("--teacher-only", action="store_true")
    arguments.add_argument("--seconds", type=float, default=3600, help="after which nothing new begins")
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--resume", action="store_true", help="keep what --json has, and run only what it does not have")
    options = arguments.parse_args()
    if options.resume and not options.json:
        arguments.error("--resume needs --json FILE")
    options.ends = time.time() + options.seconds
    found = [(contract, slot, source, letter) for contract, slot in operators(options)
             for source, letter in kernels(contract, options.kind)]
    found = [job for job in found if not options.words or
             any(word in f"{job[0].parent.name}/{job[2].stem}" for word in options.words)]
    jobs = [(*job, seed) for seed in range(options.first_seed, options.seeds + 1) for job in in_turn(found, seed, options)]
    results = Rows(options.json, options.resume)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda job: results.add(run(job, options)), [job for job in jobs if job not in results]))
    rows = results.all()
    print("\n".join((wrong_table if options.kind == "wrong" else right_table)(rows)))
    for row in rows:
        if row["verdict"] == "fail" and options.kind == "right":
            print(f"{row['operator']}/{row['kernel']}, seed {row['seed']}: called wrong: {row['kinds']}")
        if row["verdict"] in ("error", "inconclusive"):
            print(f"{row['operator']}/{row['kernel']}, seed {row['seed']}: {row['verdict']}: {row['why']}")
    runs_of_slots = collections.Counter(row["slot"] for row in rows if row["verdict"] != "not run")
    print(f"runs of each slot: {', '.join(f'{slot} {runs}' for slot, runs in sorted(runs_of_slots.items()))}")
    left_out = sum(row["verdict"] == "not run" for row in rows)
    print(f"{len(rows)} runs, of which {left_out} were not begun in time")


if __name__ == "__main__":
    main()
