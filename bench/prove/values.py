#!/usr/bin/env python3
"""Runs `assay prove --only values` over the corpus: whose values agree with the formula, and whose do not.

usage: values.py [--assay FILE] [--time S] [--jobs N] [--wrong] [--every N] [--out FILE] [FILTER...]

Without --wrong the kernels are the correct ones. With it they are the wrong ones whose expected kinds include a wrong or
nonfinite result, and those in which only rounding is wrong; the table has them apart. --out appends one JSON object per
kernel, so that a run can be continued. --every N takes every N-th kernel, in the order of their names.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from corpus import ROOT, head  # noqa: E402

VALUES = {"wrong-result", "nonfinite"}
ROUNDING = {"low-precision-accumulation", "precision-loss", "biased-rounding"}
# Each output element is computed from one element, or from one row, of each input.
BY_ELEMENT_OR_ROW = {
    "adamw", "add_rmsnorm", "argmax", "cross_entropy", "cross_entropy_backward", "dequantize_fp8", "dequantize_int8",
    "dropout", "gather_rows", "gelu", "layernorm", "log_sum_exp", "quantize_fp8", "quantize_int8", "rmsnorm", "rope",
    "row_sum", "softmax", "swiglu", "swiglu_backward", "topk_routing", "transpose",
}


def kernels(wrong, filters):
    for source in sorted(ROOT.glob(f"corpus/*/{'wrong' if wrong else 'correct'}/*.cu")):
        name = str(source.relative_to(ROOT / "corpus").with_suffix(""))
        kinds, _ = head(source)
        if wrong and not kinds & (VALUES | ROUNDING):
            continue
        if not filters or any(part in name for part in filters):
            yield name, source, kinds


def values_of(assay, source, seconds):
    """What `assay prove` says of a kernel's values, in the place of its contract's source."""
    with tempfile.TemporaryDirectory() as folder:
        return values_in(pathlib.Path(folder), assay, source, seconds)


def values_in(folder, assay, source, seconds):
    contract = (source.parents[1] / "contract.toml").read_text()
    file = folder / "contract.toml"
    file.write_text(re.sub(r"^source\s*=.*$", f'source = "{source}"', contract, count=1, flags=re.MULTILINE))
    out = folder / "proof.json"
    began = time.monotonic()
    done = subprocess.run([assay, "prove", file, "--json", out, "--time", str(seconds), "--only", "values"],
                          capture_output=True, text=True)
    record = {"seconds": round(time.monotonic() - began, 2)}
    proof = json.loads(out.read_text()) if out.exists() else {"problem": done.stderr.strip(), "obligations": []}
    found = [o for o in proof["obligations"] if o["obligation"] == "values"]
    record["status"] = found[0]["status"] if found else "unknown"
    record["reason"] = found[0]["reason"] if found else proof.get("problem", "")
    record["compared"] = found[0].get("compared", {}) if found else {}
    record["values_seconds"] = round(found[0]["seconds"], 2) if found else 0
    record["kinds"] = sorted({finding["kind"] for finding in proof.get("findings", [])})
    record["unconfirmed"] = proof.get("unconfirmed", [])
    return record


def group(record, wrong):
    if not wrong:
        return "by element or row" if record["name"].split("/")[0] in BY_ELEMENT_OR_ROW else "others"
    return "wrong or nonfinite results" if set(record["expected"]) & VALUES else "rounding alone"


def table(records, wrong):
    print("\n| kernels | | agrees | refuted | unknown |\n| --- | --- | --- | --- | --- |")
    for name in dict.fromkeys(group(r, wrong) for r in records):
        own = [r["status"] for r in records if group(r, wrong) == name]
        print(f"| {name} | {len(own)} | {own.count('agrees')} | {own.count('refuted')} | {own.count('unknown')} |")
    times = sorted(r["values_seconds"] for r in records)
    if times:
        print(f"\nprocessor time of the comparison: median {times[len(times) // 2]:.1f} s, most {times[-1]:.1f} s")


def show(record):
    print(f"{record['seconds']:6.1f} s  {record['name']:45} {record['status']:8} {' '.join(record['kinds'])} "
          f"{record['reason'][:160]} {' '.join(record['unconfirmed'])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    parser.add_argument("--time", type=float, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args()
    known = {}
    if options.out and pathlib.Path(options.out).exists():
        known = {r["name"]: r for r in map(json.loads, pathlib.Path(options.out).read_text().splitlines())}
    chosen = list(kernels(options.wrong, options.filters))[::options.every]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(values_of, options.assay, source, options.time): (name, kinds)
                   for name, source, kinds in chosen if name not in known}
        for done in concurrent.futures.as_completed(waiting):
            name, kinds = waiting[done]
            known[name] = {"name": name, "expected": sorted(kinds), **done.result()}
            if options.out:
                with open(options.out, "a") as file:
                    file.write(json.dumps(known[name]) + "\n")
            show(known[name])
    records = [known[name] for name, _, _ in chosen]
    table(records, options.wrong)


if __name__ == "__main__":
    main()
