#!/usr/bin/env python3
"""Runs `assay prove` over kernels of the corpus and prints what is proved, refuted and left unknown.

usage: corpus.py [--assay FILE] [--time S] [--wrong] [--out FILE] [FILTER...]

Without --wrong the kernels are the correct ones, with it the wrong ones whose expected kinds include an access out of
bounds, a misaligned one or a failed launch, or whose class is D (integers too narrow). A filter is part of a kernel's
name ("softmax/correct/online"). --out appends one JSON object per kernel, so that a run can be continued: kernels that
the file already has are not run again, only counted.
"""

import argparse
import collections
import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOUR = ("bounds", "overflow", "alignment", "launch")
ACCESS_KINDS = {"out-of-bounds", "misaligned", "launch-failure"}


def head(source):
    """The kinds that the first lines of a kernel expect, and its class."""
    text = source.read_text()
    fail = re.search(r"^// assay: expect fail (.*)$", text, re.MULTILINE)
    family = re.search(r"^// assay: class (\w)", text, re.MULTILINE)
    kinds = {kind.strip() for kind in fail[1].split(",")} if fail else set()
    return kinds, family[1] if family else ""


def kernels(wrong, filters):
    for source in sorted(ROOT.glob(f"corpus/*/{'wrong' if wrong else 'correct'}/*.cu")):
        name = str(source.relative_to(ROOT / "corpus").with_suffix(""))
        kinds, family = head(source)
        if wrong and not kinds & ACCESS_KINDS and family != "D":
            continue
        if not filters or any(part in name for part in filters):
            yield name, source


def prove(assay, source, seconds, folder):
    """What `assay prove` says of a kernel, in the place of its contract's source."""
    contract = (source.parents[1] / "contract.toml").read_text()
    file = folder / "contract.toml"
    file.write_text(re.sub(r'^source\s*=.*$', f'source = "{source}"', contract, count=1, flags=re.MULTILINE))
    out = folder / "proof.json"
    out.unlink(missing_ok=True)
    began, used = time.monotonic(), processor_seconds()
    done = subprocess.run([assay, "prove", file, "--json", out, "--time", str(seconds)], capture_output=True, text=True)
    took = (time.monotonic() - began, processor_seconds() - used)
    proof = json.loads(out.read_text()) if out.exists() else {"problem": done.stderr.strip(), "obligations": []}
    return proof, done.returncode, took


def processor_seconds():
    """That all commands so far have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def status(proof, name):
    """Of one obligation for all kernels of a call: the worst."""
    found = [o["status"] for o in proof["obligations"] if o["obligation"] == name]
    if "refuted" in found:
        return "refuted"
    return "proved" if found and all(s == "proved" for s in found) else "unknown"


def record_of(name, proof, code, took):
    reasons = {}
    for one in proof["obligations"]:
        if one["status"] == "unknown":
            for place in one.get("open", []):
                reason = f'{one["obligation"]}: {place["reason"]}'
                reasons[reason] = reasons.get(reason, 0) + 1
    return {
        "name": name,
        "exit": code,
        "seconds": round(took[0], 2),
        "processor_seconds": round(took[1], 2),
        "problem": proof.get("problem", ""),
        "obligations": {n: status(proof, n) for n in dict.fromkeys(o["obligation"] for o in proof["obligations"])},
        "kinds": sorted({finding["kind"] for finding in proof.get("findings", [])}),
        "unconfirmed": len(proof.get("unconfirmed", [])),
        "reasons": reasons,
    }


def table(records):
    total = len(records)
    names = list(dict.fromkeys(n for r in records for n in r["obligations"]))
    print(f"\n| {total} kernels | proved | refuted | unknown |\n| --- | --- | --- | --- |")
    for name in names:
        counts = collections.Counter(r["obligations"].get(name, "unknown") for r in records)
        print(f"| `{name}` | {counts['proved']} | {counts['refuted']} | {counts['unknown']} |")
    four = sum(all(r["obligations"].get(n) == "proved" for n in FOUR) for r in records)
    refuted = sum("refuted" in r["obligations"].values() for r in records)
    print(f"| the first four together | {four} | | |")
    print(f"| any | | {refuted} | |")
    for name, key in (("elapsed time", "seconds"), ("processor time", "processor_seconds")):
        times = sorted(r[key] for r in records)
        if times:
            print(f"\n{name}: median {statistics.median(times):.1f} s, 95 % within "
                  f"{times[min(total - 1, int(0.95 * total))]:.1f} s, most {times[-1]:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    parser.add_argument("--time", type=float, default=30)
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args()
    known = {}
    if options.out and pathlib.Path(options.out).exists():
        known = {r["name"]: r for r in map(json.loads, pathlib.Path(options.out).read_text().splitlines())}
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for name, source in kernels(options.wrong, options.filters):
            if name not in known:
                known[name] = record_of(name, *prove(options.assay, source, options.time, pathlib.Path(folder)))
                if options.out:
                    with open(options.out, "a") as file:
                        file.write(json.dumps(known[name]) + "\n")
            record = known[name]
            records.append(record)
            said = " ".join(f"{n}:{s[0]}" for n, s in record["obligations"].items())
            print(f"{record['seconds']:6.1f} s {record['processor_seconds']:6.1f} s  {name:50} {said} {' '.join(record['kinds'])} {record['problem']}")
            for reason, count in sorted(record["reasons"].items(), key=lambda item: -item[1]):
                if reason.split(":")[0] in FOUR:
                    print(f"            {count} x {reason}")
            sys.stdout.flush()
    table(records)


if __name__ == "__main__":
    main()
