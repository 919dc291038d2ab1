#!/usr/bin/env python3
"""Runs `assay prove` over kernels that were written to test other provers, beside what those tests expect.

    cases.py FOLDER... --out FOLDER [--assay build/release/bin/assay] [--time 20] [--only WORD] [--json FILE]

A case is a .cu file. What its tool is expected to answer is read from the file, as GPUVerify's and Faial's tests
write it: a first line `//pass` or `//xfail:...`, or a name that begins with `drf-` or `racy-`; and a line with the
launch, `//--blockDim=64 --gridDim=[8,8]` (Faial's default is one dimension of 1024 threads; the grid is then 1, the level
at which its tests look for races).

Those tools take arrays without bounds and any value of any parameter. A contract needs sizes: every array gets
sixteen elements per thread of the grid, so that only `race` and `barrier` can be compared; scalars may have any value.
Their annotations become code that a proof can use: a thread for which an assumption does not hold ends. What a
contract cannot say (structs as parameters, axioms, missing functions) is listed as not run, with the reason.

The kernels themselves are not part of this repository.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

SHIM = """\
#pragma once
#include <cuda_runtime.h>
#include <stdint.h>
#define __assume(x) do { if (!(x)) asm volatile("exit;"); } while (0)
#define __requires(x) __assume(x)
#define __assert(x) do { } while (0)
#define __ensures(x) do { } while (0)
#define __invariant(x) true
#define __global_invariant(x) true
#define __implies(a, b) (!(a) || (b))
"""
# Annotations that change what a kernel means and have no counterpart in code.
UNTRANSLATED = ("__axiom", "__requires_fresh_array", "__distinct_int", "__enabled", "__read", "__write", "__all(",
                "__at_most_one", "__function_wide", "__same_for_warp", "__uniform", "__other", "__no_read", "__exclusive",
                "__reads_from", "__writes_to", "__old", "__return_val", "__add_noovfl", "__barrier_invariant", "__ptr_")
DTYPES = {"float": "f32", "double": "f64", "int": "i32", "unsigned": "u32", "unsigned int": "u32", "uint": "u32", "char": "i8",
          "unsigned char": "u8", "uchar": "u8", "short": "i16", "long": "i64", "long long": "i64", "size_t": "u64",
          "unsigned long": "u64", "unsigned long long": "u64", "bool": "bool", "uint32_t": "u32", "int32_t": "i32",
          "long int": "i64", "unsigned short": "i16"}
FLOATS = ("f32", "f64")
PER_THREAD = 16
MOST_THREADS = 1024  # of a block: some cases have 2048, which no GPU accepts


class NotRun(Exception):
    """Why a case was not run."""


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def expectation(path, lines):
    """(expected, launch line, the flags of the compiler)."""
    first = lines[0].strip().lower() if lines else ""
    expected = ""
    name = re.match(r"(drf|racy)-", path.name)
    if name:  # the name says it; Faial's own tests go by it
        expected = "pass" if name[1] == "drf" else "fail"
    elif re.match(r"//\s*pass", first):
        expected = "pass"
    elif re.match(r"//\s*xfail:not_all_verified", first):
        expected = "fail"
    elif first.startswith("//xfail"):
        raise NotRun("the other tool's front end is expected to refuse it")
    else:
        raise NotRun("no expectation is written in it")
    launch = next((line for line in lines[:4] if re.match(r"//\s*--", line)), "")
    return expected, launch, re.findall(r"-D\S+", launch)


def parameters(text):
    """The name of the only kernel and its parameters, as (type, name, is pointer)."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    kernels = re.findall(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?"
                         r"(\w+)\s*\(([^)]*)\)\s*\{", plain)
    if re.search(r"template\s*<", plain) and re.search(r"template\s*<[^>]*>\s*__global__", plain):
        raise NotRun("the kernel is a template")
    if len(kernels) != 1:
        raise NotRun(f"{len(kernels)} kernels in the file")
    name, inside = kernels[0]
    found = []
    for number, one in enumerate(filter(None, (p.strip() for p in inside.split(",")))):
        if one == "void":
            continue
        one = re.sub(r"\b(const|volatile|__restrict__|__restrict|restrict|register|struct)\b", " ", one)
        two_dims = re.search(r"\[\w*\]", one)
        bare = re.sub(r"\[\w*\]", "", one)
        words = re.sub(r"[*&]", " ", bare).split()
        if len(words) < 2:
            raise NotRun(f"a parameter was not understood: {one}")
        if bare.count("*") > 1:
            raise NotRun("a parameter that is a pointer to pointers")
        found.append((" ".join(words[:-1]), f"p{number}", "*" in bare or bool(two_dims)))
    return name, found


def contract(path, text, launch, flags, folder):
    """Writes the contract of a case; says where, and what was changed."""
    for word in UNTRANSLATED:
        if word in text:
            raise NotRun(f"it is annotated with {word.strip('(')}, which is no code")
    name, found = parameters(text)
    block = numbers((re.search(r"--blockDim=(\S+)", launch) or [0, "1024"])[1])
    grid = numbers((re.search(r"--gridDim=(\S+)", launch) or [0, "1"])[1])
    changed = ""
    threads = 1
    for n in block:
        threads *= n
    if threads > MOST_THREADS:
        changed = f"block of {threads} threads cut to {MOST_THREADS}"
        while threads > MOST_THREADS:
            widest = max(range(len(block)), key=lambda i: block[i])
            block[widest] //= 2
            threads //= 2
    total = threads
    for n in grid:
        total *= n
    size = total * PER_THREAD
    tensors, formula, args = [], [], []
    for kind, own, pointer in found:
        args.append(own)
        if pointer:
            dtype = DTYPES.get(kind, "u8")
            count = size if kind in DTYPES else size * 64
            tensors.append(f'[tensors.{own}]\ndtype = "{dtype}"\nshape = [{count}]\nrole = "inout"\n'
                           + ('values = "integers(0, 100)"\n' if dtype not in FLOATS + ("bool",) else ""))
            formula.append(f"{own}[i] = {own}[i]")
        elif kind in DTYPES:
            dtype = DTYPES[kind]
            ends = "[-2.0, 2.0]" if dtype in FLOATS else "[0, 1]" if dtype == "bool" else \
                "[-2147483648, 2147483647]" if dtype == "i32" else "[0, 100]"
            tensors.append(f'[scalars.{own}]\ndtype = "{dtype}"\nrange = {ends}\n')
        else:
            raise NotRun(f"a parameter of type {kind}")
    if not formula:
        raise NotRun("the kernel has no array to write to")
    (folder / "shim").mkdir(parents=True, exist_ok=True)
    (folder / "shim" / "annotations.h").write_text(SHIM)
    (folder / "kernel.cu").write_text(text)
    options = json.dumps(["-include", str((folder / "shim" / "annotations.h").resolve())] + flags)
    (folder / "contract.toml").write_text(
        f'title = {json.dumps(str(path))}\n\n[kernel]\nsource = "kernel.cu"\nglobal = "{name}"\nargs = {json.dumps(args)}\n'
        f"grid = {json.dumps(grid)}\nblock = {json.dumps(block)}\nflags = {options}\n\n[dims]\n\n"
        + "\n".join(tensors) + '\n[reference]\nformula = """\n' + "\n".join(formula) + '\n"""\n')
    return folder / "contract.toml", changed


def status_of(report, names):
    """The worst of these obligations, over all kernels, and the reason of the first that is so."""
    for status in ("refuted", "unknown", "proved"):
        for one in report.get("obligations", []):
            if one["obligation"] in names and one["status"] == status:
                return status, f'{one["obligation"]}: {one["reason"]}' if status != "proved" else ""
    return "unknown", report.get("problem") or "no such obligation"


def run(path, root, out, assay, seconds):
    text = path.read_text(errors="replace")
    case = {"case": str(path.relative_to(root))}
    folder = out / re.sub(r"\W+", "_", case["case"])
    try:
        case["expected"], launch, flags = expectation(path, text.splitlines())
        place, changed = contract(path, text, launch, flags, folder)
    except NotRun as reason:
        return {**case, "answer": "not run", "reason": str(reason)}
    begun = time.time()
    done = subprocess.run([assay, "prove", str(place), "--json", str(folder / "proof.json"), "--time", str(seconds)],
                          capture_output=True, text=True, check=False)
    case.update(seconds=round(time.time() - begun, 1), changed=changed)
    if done.returncode not in (0, 1, 3):
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()] or \
            (done.stderr + done.stdout).splitlines() or [""]
        return {**case, "answer": "not run", "reason": "not compiled: " + lines[0].strip()[:160]}
    report = json.loads((folder / "proof.json").read_text())
    race, why = status_of(report, ("race", "barrier"))
    case.update(answer=race, reason=why[:300], verdict=report["verdict"],
                findings=sorted({finding["kind"] for finding in report.get("findings", [])}))
    return case


def table(cases):
    count = {}
    for case in cases:
        key = (case.get("expected", ""), case["answer"])
        count[key] = count.get(key, 0) + 1
    answers = ("proved", "refuted", "unknown", "not run")
    lines = ["| expected | " + " | ".join(answers) + " |", "| --- |" + " --- |" * len(answers)]
    for expected in ("pass", "fail", ""):
        row = [count.get((expected, answer), 0) for answer in answers]
        if any(row):
            lines.append(f"| {expected or 'no expectation'} | " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="where contracts and proofs go")
    parser.add_argument("--assay", default="build/release/bin/assay")
    parser.add_argument("--time", type=float, default=20, help="seconds of the solver for each case")
    parser.add_argument("--only", default="", help="cases whose path contains this")
    parser.add_argument("--json", type=pathlib.Path, help="write every answer to this file")
    options = parser.parse_args()
    cases = []
    for root in options.folders:
        if not root.is_dir():
            sys.exit(f"{root}: no such folder")
        for path in sorted(root.rglob("*.cu")):
            if options.only not in str(path):
                continue
            cases.append(run(path, root, options.out, options.assay, options.time))
            case = cases[-1]
            print(f'{case.get("expected", "-"):5} {case["answer"]:8} {case.get("seconds", 0):5.1f} s  {case["case"]}'
                  f'  {case["reason"]}', flush=True)
    print("\n" + table(cases))
    if options.json:
        options.json.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
