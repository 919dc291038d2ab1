#!/usr/bin/env python3
"""Proves the kernels of bench/prove/unseen, and says where a proof contradicts what is known of a kernel.

usage: unseen.py [--assay FILE] [--time S] [--jobs N] [FILTER...]

Each file has its contract in a comment. `// violates: race, coverage` names the obligations that fail: none of these may be
proved, and one should be refuted. `// right` may not be refuted. They were written to fool the prover, before it was run on
them.
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

ROOT = pathlib.Path(__file__).resolve().parents[2]


def prove(options, source):
    text = source.read_text()
    violated = re.search(r"^// violates: (.*)$", text, re.MULTILINE)
    wrong = {name.strip() for name in violated[1].split(",")} if violated else set()
    contract = re.search(r"/\* contract\n(.*?)\*/", text, re.DOTALL)[1].replace("SOURCE", str(source))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file, out = pathlib.Path(folder) / "contract.toml", pathlib.Path(folder) / "proof.json"
        file.write_text(contract)
        done = subprocess.run([options.assay, "prove", file, "--json", out, "--time", str(options.time)],
                              capture_output=True, text=True)
        proof = json.loads(out.read_text()) if out.exists() else {"problem": done.stdout + done.stderr}
    said = {}
    for one in proof.get("obligations", []):
        worst = ("refuted", "unknown", "agrees", "proved")
        name = one["obligation"]
        said[name] = min(said.get(name, "proved"), one["status"], key=worst.index)
    return source.stem, wrong, said, time.monotonic() - began, proof.get("problem", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    parser.add_argument("--time", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args()
    sources = sorted((ROOT / "bench/prove/unseen").glob("*.cu"))
    sources = [s for s in sources if not options.filters or any(f in s.stem for f in options.filters)]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, wrong, said, took, problem in pool.map(lambda s: prove(options, s), sources):
            if wrong:
                verdict = ("WRONG PROOF" if any(said.get(n) == "proved" for n in wrong) else
                           "refuted" if any(s == "refuted" for s in said.values()) else "open")
            else:
                verdict = ("ACCUSED" if "refuted" in said.values() else
                           "proved" if said and all(s in ("proved", "agrees") for s in said.values()) else "open")
            bad += verdict in ("WRONG PROOF", "ACCUSED") or bool(problem)
            print(f"{name:45} {took:5.1f} s  {verdict:12} " + " ".join(f"{n}:{s[0]}" for n, s in said.items()), problem[:200],
                  flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
