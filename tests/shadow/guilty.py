#!/usr/bin/env python3
"""Is the line that loses precision the first one named?

Checks each kernel of guilty.txt with `assay check` and looks at the finding's guilty line. What is found as another kind than one
of precision (nonfinite, say, or nothing in the time given) and names no line is counted apart. With --correct, checks the correct
kernels of the same operators instead: no line may be accused. Prints a line for each kernel that is not as it should be, and
a summary; the exit status is 0 when all are.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PRECISION = {"low-precision-accumulation", "precision-loss", "biased-rounding"}
NUMERIC = PRECISION | {"wrong-result", "nonfinite"}


def expectations():
    for line in (Path(__file__).parent / "guilty.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kernel, words = line.split(": ", 1)
            yield ROOT / "corpus" / kernel, words.split(" || ")


def check(assay, kernel, budget):
    """The report of a check of this kernel under its operator's contract."""
    contract = kernel.parent.parent / "contract.toml"
    text = re.sub(r'(?m)^source\s*=.*$', f'source = "{kernel}"', contract.read_text(), count=1)
    with tempfile.TemporaryDirectory() as folder:
        own, report = Path(folder) / "contract.toml", Path(folder) / "report.json"
        own.write_text(text)
        subprocess.run([assay, "check", str(own), "--json", str(report), "--budget", str(budget)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, timeout=300)
        return json.loads(report.read_text()) if report.exists() else None


def guilty_text(kernel, report):
    """The source text of the line that the first numeric finding names, and what was found."""
    for finding in report["findings"]:
        if finding["severity"] != "error" or finding["kind"] not in NUMERIC:
            continue
        guilty = finding["evidence"].get("guilty")
        if not guilty:
            return None, finding["kind"]
        if os.path.basename(guilty["file"]) != kernel.name:
            return f"{guilty['file']}:{guilty['line']}", finding["kind"]
        return kernel.read_text().splitlines()[guilty["line"] - 1].strip(), finding["kind"]
    return None, "nothing numeric"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("filter", nargs="*", help="parts of the kernels' paths")
    parser.add_argument("--assay", default=str(ROOT / "build" / "release" / "bin" / "assay"))
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--correct", action="store_true")
    options = parser.parse_args()
    wanted = [(k, w) for k, w in expectations() if not options.filter or any(f in str(k) for f in options.filter)]
    if options.correct:
        folders = sorted({k.parent.parent / "correct" for k, _ in wanted})
        wanted = [(k, None) for folder in folders for k in sorted(folder.glob("*.cu"))]
    right = other = 0
    for kernel, words in wanted:
        name = kernel.relative_to(ROOT / "corpus")
        report = check(options.assay, kernel, options.budget)
        if report is None:
            print(f"{name}: no report")
            continue
        text, kind = guilty_text(kernel, report)
        if words is None:
            good = text is None
        elif text is None and kind not in PRECISION:
            other += 1
            print(f"{name}: found as {kind}", flush=True)
            continue
        else:
            good = text is not None and any(w in text for w in words)
        right += good
        if not good:
            print(f"{name}: {kind}: {text or 'no line is named'}", flush=True)
    print(f"{right} of {len(wanted) - other} as they should be, {other} found as something else")
    return 0 if right == len(wanted) - other else 1


if __name__ == "__main__":
    sys.exit(main())
