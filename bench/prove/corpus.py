#!/usr/bin/env python3
"""Runs `assay prove` over kernels of the corpus, and makes the tables of docs/measurements/prove.md.

usage: corpus.py [--assay FILE] [--time S] [--jobs N] [--set NAME]... [--out FILE] [--compile] [FILTER...]
       corpus.py --table FILE... [--into PAGE]

The sets of kernels:
  right   the correct kernels
  access  wrong kernels whose expected kinds include an access out of bounds, a misaligned one or a failed launch, or
          whose class is D (integers too narrow)
  race    wrong kernels whose expected kinds include a data race, without those of class D: what is wrong with them is an index,
          and that threads meet is one of the ways in which it shows
Without --set all of them are run. A filter is part of a kernel's name ("softmax/correct/online").

--compile runs as little of a proof as it can, so that the compiler's results are in the cache and a later run has no
compiler in its times.

--out appends one JSON object per kernel as soon as it is done, so that a run can be continued: kernels that the file
already has are not run again. --table prints the tables from such files, and runs nothing; of a kernel that is there
more than once the last run counts. --into puts them into a page, between the lines BEGIN and END.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = ("right", "access", "race")
FOUR = ("bounds", "overflow", "alignment", "launch")
SHOWN = ("bounds", "overflow", "alignment", "launch", "barrier", "race", "coverage", "values")
BEGIN, END = "<!-- tables of bench/prove/corpus.py -->", "<!-- end of the tables -->"
ACCESS_KINDS = {"out-of-bounds", "misaligned", "launch-failure"}

# Wrong kernels that the sets contain by their labels, though what is wrong is no access, wrap, alignment, launch or
# race of a kernel: no obligation about those can fail.
OTHER_CAUSES = {
    "add_bias/wrong/grid_limited": "an output left unwritten: too few blocks",
    "argmax/wrong/place_in_16_bits": "the narrow number is a result, no address",
    "argsort_stable/wrong/keys_of_three_bits": "the narrow number is a value, no address",
    "axpy/wrong/counts_down_in_32_bits": "an output left unwritten: the narrow number ends a loop early, no index is narrow",
    "axpy/wrong/grid_in_32_unsigned_bits": "an output left unwritten: too few blocks",
    "axpy/wrong/last_chunk_forgotten": "an output left unwritten: a launch too few",
    "axpy/wrong/size_as_int": "an output left unwritten: the size is a narrow number, no index is",
    "bias_grad/wrong/own_workspace": "state that calls share",
    "conv1d/wrong/margin_not_loaded": "shared memory that is read unwritten",
    "cumulative_sum/wrong/chunks_in_8_bits": "an output left unwritten: the narrow count ends its loop before it is an index again",
    "dequantize_int4_zero/wrong/unsigned_difference": "the narrow number is a value, no address",
    "dequantize_int4_zero/wrong/zero_points_are_bytes": "a layout: the accesses are in bounds",
    "dropout_giant/wrong/counter_in_32_bits": "the narrow number is a value, no address",
    "dequantize_int8/wrong/difference_in_8_bits": "the narrow number is a value, no address",
    "dequantize_mxfp4/wrong/block_of_16": "wrong mathematics: the accesses are in bounds",
    "dropout/wrong/graph_of_first_call": "state kept between calls",
    "dropout_seeds/wrong/half_of_the_seed": "the narrow number is a seed, no address",
    "dropout_seeds/wrong/seed_as_a_float": "the narrow number is a seed, no address",
    "dropout_seeds/wrong/step_in_eight_bits": "the narrow number is a seed, no address",
    "gather_columns/wrong/index_of_the_row": "wrong mathematics: the accesses are in bounds",
    "gather_columns/wrong/not_transposed": "a layout: the accesses are in bounds",
    "gather_rows/wrong/row_cached": "state kept between calls",
    "gelu/wrong/no_stride": "an output left unwritten",
    "gemm_tensor_core/wrong/transposed": "a layout: the accesses are in bounds",
    "grouped_gemm/wrong/transposed": "a layout: the accesses are in bounds",
    "grouped_query_attention/wrong/sees_the_next": "wrong mathematics: the accesses are in bounds",
    "histogram/wrong/bins_in_8_bits": "the narrow number is a count, no address",
    "matmul_int8/wrong/sum_in_32_bits": "the narrow number is a sum, no address",
    "moe_combine/wrong/slot_in_16_bits": "rows left out: the narrow number decides a branch",
    "moe_combine/wrong/weight_of_the_slot": "wrong mathematics: the accesses are in bounds",
    "paged_attention/wrong/pages_in_order": "another sequence's pages: the accesses are in bounds",
    "prefix_sum/wrong/state_not_cleared": "a workspace that is read unwritten",
    "reduce_sum/wrong/counter_of_two_calls": "state that calls share",
    "reduce_sum/wrong/one_warp_waits_for_nobody": "two launches that overlap: no two accesses of one race",
    "reduce_sum/wrong/starts_early": "two launches that overlap: no two accesses of one race",
    "reduce_sum/wrong/starts_early_untold": "two launches that overlap: no two accesses of one race",
    "reduce_sum/wrong/waits_after_reading": "two launches that overlap: no two accesses of one race",
    "reduce_sum/wrong/shared_partials": "state that calls share",
    "rmsnorm_backward/wrong/workspace_of_first_call": "state kept between calls",
    "row_norm/wrong/one_pass_of_grid_y": "an output left unwritten: too few blocks",
    "row_sum/wrong/lanes_in_order": "the order in which lanes come to an atomic: no two accesses race",
    "scatter_add/wrong/no_loop": "elements left out: an update that does not happen",
    "stochastic_rounding/wrong/seed_is_cut": "the narrow number is a seed, no address",
    "topk_routing/wrong/equals_skipped": "wrong mathematics: the accesses are in bounds",
    "topk_rows/wrong/equals_once": "wrong mathematics: the accesses are in bounds",
    "wiener_filter/wrong/parts_in_two_halves": "a layout: the accesses are in bounds and disjoint",
}


def head(source):
    """The kinds that the first lines of a kernel expect, and its class."""
    text = source.read_text()
    fail = re.search(r"^// assay: expect fail (.*)$", text, re.MULTILINE)
    family = re.search(r"^// assay: class (\w)", text, re.MULTILINE)
    kinds = {kind.strip() for kind in fail[1].split(",")} if fail else set()
    return kinds, family[1] if family else ""


def sets_of(source):
    if source.parent.name == "correct":
        return {"right"}
    kinds, family = head(source)
    found = set()
    if kinds & ACCESS_KINDS or family == "D":
        found.add("access")
    if "data-race" in kinds and family != "D":
        found.add("race")
    return found


def kernels(wanted, filters):
    for source in sorted(ROOT.glob("corpus/*/*/*.cu")):
        name = str(source.relative_to(ROOT / "corpus").with_suffix(""))
        sets = sets_of(source)
        if sets & set(wanted) and (not filters or any(part in name for part in filters)):
            yield name, source, sorted(sets)


def prove(assay, source, seconds, only=()):
    """What `assay prove` says of a kernel, in the place of its contract's source."""
    contract = (source.parents[1] / "contract.toml").read_text()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "contract.toml"
        file.write_text(re.sub(r"^source\s*=.*$", f'source = "{source}"', contract, count=1, flags=re.MULTILINE))
        out, log = pathlib.Path(folder) / "proof.json", pathlib.Path(folder) / "log"
        began = time.monotonic()
        with open(log, "w") as stream:
            words = [assay, "prove", file, "--json", out, "--time", str(seconds)]
            for name in only:
                words += ["--only", name]
            command = subprocess.Popen(words, stdout=stream, stderr=subprocess.STDOUT)
            _, state, used = os.wait4(command.pid, 0)  # of this command alone, with the processes that it waited for
        command.returncode = os.waitstatus_to_exitcode(state)
        took = (time.monotonic() - began, used.ru_utime + used.ru_stime)
        proof = json.loads(out.read_text()) if out.exists() else {"problem": log.read_text().strip()[-400:]}
    proof.setdefault("obligations", [])
    return proof, command.returncode, took


def status(proof, name):
    """Of one obligation for all kernels of a call: the worst."""
    found = [o["status"] for o in proof["obligations"] if o["obligation"] == name]
    for worst in ("refuted", "unknown"):
        if worst in found:
            return worst
    return found[0] if found else "unknown"


def record_of(name, sets, proof, code, took):
    reasons = {}
    for one in proof["obligations"]:
        if one["status"] != "unknown":
            continue
        places = [p.get("reason") for p in one.get("places", []) if p.get("reason")] or [one.get("reason", "")]
        for reason in places:
            reason = f'{one["obligation"]}: {reason}'
            reasons[reason] = reasons.get(reason, 0) + 1
    coverage = [o for o in proof["obligations"] if o["obligation"] == "coverage"]
    return {
        "name": name,
        "sets": sets,
        "exit": code,
        "seconds": round(took[0], 2),
        "processor_seconds": round(took[1], 2),
        "problem": proof.get("problem", ""),
        "obligations": {n: status(proof, n) for n in dict.fromkeys(o["obligation"] for o in proof["obligations"])},
        "outputs": sum(o.get("total", 0) for o in coverage),
        "outputs_proved": sum(o.get("proved", 0) for o in coverage),
        "kinds": sorted({finding["kind"] for finding in proof.get("findings", [])}),
        "unconfirmed": proof.get("unconfirmed", []),
        "reasons": reasons,
    }


# ---- running


def show(record):
    said = " ".join(f"{n}:{s[0]}" for n, s in record["obligations"].items())
    print(f"{record['seconds']:6.1f} s {record['processor_seconds']:6.1f} s  {record['name']:50} {said} "
          f"{' '.join(record['kinds'])} {record['problem']}", flush=True)


def run(options):
    known = set()
    if options.out and not options.compile and pathlib.Path(options.out).exists():
        known = {r["name"] for r in read([options.out])}
    guard = threading.Lock()

    def one(job):
        name, source, sets = job
        if options.compile:
            prove(options.assay, source, 0.1, ["launch"])
            return None
        record = record_of(name, sets, *prove(options.assay, source, options.time))
        with guard:
            show(record)
            if options.out:
                with open(options.out, "a") as file:
                    file.write(json.dumps(record) + "\n")
        return record

    jobs = [job for job in kernels(options.set or SETS, options.filters) if job[0] not in known]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        records = list(pool.map(one, jobs))
    if options.compile:
        return []
    return read([options.out]) if options.out else records


def read(files):
    records = {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            record = json.loads(line)
            records[record["name"]] = record
    return [records[name] for name in sorted(records)]


# ---- tables


def times(records):
    for name, key in (("elapsed", "seconds"), ("processor", "processor_seconds")):
        taken = sorted(r[key] for r in records)
        within = taken[min(len(taken) - 1, int(0.95 * len(taken)))]
        yield f"| {name} time | {statistics.median(taken):.1f} s | {within:.1f} s | {taken[-1]:.1f} s |"


def has(record, names, state="proved"):
    return all(record["obligations"].get(n) == state for n in names)


def first_kernels(records):
    """The same of the kernels that the corpus had when proofs were begun: what was to be reached is said of those."""
    names = set((ROOT / "bench/prove/first.txt").read_text().split())
    first = [r for r in records if r["name"] in names]
    if not first:
        return []
    outputs = sum(r["outputs"] for r in first)
    return [f"| of the {len(first)} first kernels: the first four together | {sum(has(r, FOUR) for r in first)} | | |",
            f"| `barrier` and `race` | {sum(has(r, ('barrier', 'race')) for r in first)} | | |",
            f"| outputs covered, of {outputs} | {sum(r['outputs_proved'] for r in first)} | | |"]


def table_of_right(records):
    total = len(records)
    lines = [f"| {total} right kernels | proved | refuted | unknown |", "| --- | --- | --- | --- |"]
    for name in SHOWN:
        counts = collections.Counter(r["obligations"].get(name, "not asked") for r in records)
        held = counts["proved"] + counts["agrees"]
        if held + counts["refuted"] + counts["unknown"]:
            lines.append(f"| `{name}` | {held} | {counts['refuted']} | {counts['unknown']} |")
    lines.append(f"| the first four together | {sum(has(r, FOUR) for r in records)} | | |")
    lines.append(f"| `barrier` and `race` | {sum(has(r, ('barrier', 'race')) for r in records)} | | |")
    outputs = sum(r["outputs"] for r in records)
    if outputs:
        proved = sum(r["outputs_proved"] for r in records)
        lines.append(f"| outputs covered, of {outputs} | {proved} | | |")
    lines += first_kernels(records)
    lines += ["", "| a kernel | median | 95 % within | longest |", "| --- | --- | --- | --- |", *times(records)]
    rest = [r for r in records if r["problem"] or any(r["obligations"].get(n) not in ("proved", "agrees") for n in
                                                     r["obligations"] if n != "values")]
    if rest:
        lines += ["", "What is not proved, apart from `values`:", "", "| kernel | obligation | reasons |", "| --- | --- | --- |"]
    for record in rest:
        if record["problem"]:
            lines.append(f"| `{record['name']}` | | {cell(record['problem'])} |")
        for name, said in record["obligations"].items():
            if name == "values" or said in ("proved", "agrees"):
                continue
            reasons = [f"{text.split(': ', 1)[1]}{f' ({n} times)' if n > 1 else ''}"
                       for text, n in record["reasons"].items() if text.startswith(name + ": ")]
            lines.append(f"| `{record['name']}` | `{name}`{' refuted' if said == 'refuted' else ''} | "
                         f"{cell('; '.join(reasons[:3]))} |")
    return lines


def cell(text):
    return " ".join(text.replace("|", "\\|").split())


def table_of_wrong(records, names, title):
    """One row for each kernel; `names`: the obligations that its defect is a matter of."""
    inside = [r for r in records if r["name"] not in OTHER_CAUSES]
    refuted = [r for r in inside if any(r["obligations"].get(n) == "refuted" for n in names)]
    wrongly = [r for r in inside if has(r, names)]
    share = f" ({100 * len(refuted) / len(inside):.0f} %)" if inside else ""
    lines = [f"{title}: {len(inside)}. Refuted and replayed: {len(refuted)}{share}. Proved though wrong: {len(wrongly)}.", "",
             "| kernel | refuted by a run | otherwise |", "| --- | --- | --- |"]
    for record in inside:
        shown = [f"`{n}`" for n, s in record["obligations"].items() if s == "refuted"]
        why = "" if record in refuted else "; ".join(
            list(record["reasons"])[:2] + [f"not confirmed: {u}" for u in record["unconfirmed"][:1]])
        lines.append(f"| `{record['name']}` | {', '.join(shown)} | {cell(why or record['problem'])} |")
    others = [r for r in records if r["name"] in OTHER_CAUSES]
    if others:
        lines += ["", "Labelled so, but with another cause:", "", "| kernel | cause | refuted all the same |",
                  "| --- | --- | --- |"]
        for record in others:
            shown = ", ".join(f"`{n}`" for n, s in record["obligations"].items() if s == "refuted")
            lines.append(f"| `{record['name']}` | {OTHER_CAUSES[record['name']]} | {shown} |")
    return lines


def tables(records):
    def of(name):
        return [r for r in records if name in r["sets"]]

    lines = []
    if of("right"):
        lines += ["## Right kernels", "", *table_of_right(of("right")), ""]
    if of("access"):
        lines += ["## Wrong kernels: accesses, wraps, alignment, launches", "",
                  *table_of_wrong(of("access"), FOUR, "Kernels whose cause is one of these"), ""]
    if of("race"):
        lines += ["## Wrong kernels: races", "",
                  *table_of_wrong(of("race"), ("race", "barrier"), "Kernels with a race or a divergent barrier"), ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay", default=str(ROOT / "build/release/bin/assay"))
    parser.add_argument("--time", type=float, default=30, help="processor seconds of a proof")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time; each takes up to two cores")
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--compile", action="store_true", help="only fill the compiler's cache")
    parser.add_argument("--out", help="a file of JSON lines that the run is continued from and added to")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the tables from such files")
    parser.add_argument("--into", metavar="PAGE", help="with --table: replace the tables of this page")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args()
    text = tables(read(options.table) if options.table else run(options))
    if not options.into:
        print(text)
        return
    page = pathlib.Path(options.into).read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        sys.exit(f"corpus.py: {options.into} does not have the lines {BEGIN} and {END}, in this order")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    pathlib.Path(options.into).write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
