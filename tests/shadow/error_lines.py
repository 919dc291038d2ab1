#!/usr/bin/env python3
"""Is the line that loses precision the first one named?

Checks each kernel of error_lines.txt with `assay check` and compares the line at which its finding says the error enters
(evidence.error_line) with the known one. A kernel that is found as another kind than one of precision (nonfinite, or nothing in
the time given) and names no line is counted separately. With --correct, checks the correct kernels of the same operators
instead, with --correct=all those of every operator: nothing may be found. With --unseen, checks the kernels of the folder
unseen/, which nothing was tuned on: wrong_*.cu have the lines that lose precision marked, in right_*.cu nothing may be found.
Prints one line per kernel that fails, and a summary; the exit status is 0 if none does.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PRECISION = {"low-precision-accumulation", "precision-loss", "biased-rounding"}
NUMERIC = PRECISION | {"wrong-result", "nonfinite"}
MARK = "// loses precision"


def corpus_contract(kernel):
    text = (kernel.parent.parent / "contract.toml").read_text()
    return re.sub(r'(?m)^source\s*=.*$', f'source = "{kernel}"', text, count=1)


def own_contract(kernel):
    """The contract in a kernel's leading comment."""
    text = kernel.read_text()
    text = text[text.index("/* contract\n") + len("/* contract\n"):text.index("*/")]
    return text.replace("[kernel]\n", f'[kernel]\nsource = "{kernel}"\n', 1)


def cases(options):
    """Kernel, contract, and what the line that loses precision contains (None: no line may be named)."""
    if options.unseen:
        for kernel in sorted((HERE / "unseen").glob("*.cu")):
            yield kernel, own_contract(kernel), [MARK] if kernel.name.startswith("wrong") else None
        return
    listed = [line.split(": ", 1) for line in (HERE / "error_lines.txt").read_text().splitlines()
              if line and not line.startswith("#")]
    if not options.correct:
        for name, words in listed:
            yield ROOT / "corpus" / name, corpus_contract(ROOT / "corpus" / name), words.split(" || ")
        return
    operators = {Path(name).parts[0] for name, _ in listed}
    for folder in sorted((ROOT / "corpus").glob("*/correct")):
        if options.correct == "all" or folder.parent.name in operators:
            for kernel in sorted(folder.glob("*.cu")):
                yield kernel, corpus_contract(kernel), None


def check(options, contract):
    """The report of a check of this contract."""
    with tempfile.TemporaryDirectory() as folder:
        own, report = Path(folder) / "contract.toml", Path(folder) / "report.json"
        own.write_text(contract)
        subprocess.run([options.assay, "check", str(own), "--json", str(report), "--budget", str(options.budget)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, timeout=300)
        return json.loads(report.read_text()) if report.exists() else None


def error_line_text(kernel, report):
    """The source text of the line that the first numeric finding names, and what was found."""
    for finding in report["findings"]:
        if finding["severity"] != "error" or finding["kind"] not in NUMERIC:
            continue
        line = finding["evidence"].get("error_line")
        line = line and line.get("cancels_at", line)  # the line that makes the error matter
        if not line:
            return None, finding["kind"]
        if os.path.basename(line["file"]) != kernel.name:
            return f"{line['file']}:{line['line']}", finding["kind"]
        return kernel.read_text().splitlines()[line["line"] - 1].strip(), finding["kind"]
    return None, "nothing numeric"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filter", nargs="*", help="parts of the kernels' paths")
    parser.add_argument("--assay", default=str(ROOT / "build" / "release" / "bin" / "assay"))
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--correct", nargs="?", const="same", choices=["same", "all"])
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="kernels to check in parallel")
    options = parser.parse_args()
    right = other = total = 0
    wanted = [c for c in cases(options) if not options.filter or any(f in str(c[0]) for f in options.filter)]
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    reports = pool.map(lambda case: check(options, case[1]), wanted)
    for (kernel, _, words), report in zip(wanted, reports):
        total += 1
        name = "/".join(kernel.parts[-3:])
        if report is None:
            print(f"{name}: no report", flush=True)
            continue
        text, kind = error_line_text(kernel, report)
        if words is None:
            good = text is None and kind == "nothing numeric"
        elif text is None and kind not in PRECISION:
            other += 1
            print(f"{name}: found as {kind}", flush=True)
            continue
        else:
            good = text is not None and any(w in text for w in words)
        right += good
        if not good:
            print(f"{name}: {kind}: {text or 'no line is named'}", flush=True)
    print(f"{right} of {total - other} as they should be, {other} found as something else")
    return 0 if right == total - other else 1


if __name__ == "__main__":
    sys.exit(main())
