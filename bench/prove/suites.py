#!/usr/bin/env python3
"""Runs `assay prove` over test suites of other verifiers, whose cases say what is expected of them.

usage: suites.py gpuverify|faial FOLDER [--assay FILE] [--time S] [--jobs N] [--expected right|wrong]
                                   [--out FILE] [--keep FOLDER] [FILTER...]

gpuverify  FOLDER is testsuite/CUDA of github.com/mc-imperial/gpuverify: one kernel.cu per case. Its first line is
           "//pass" or "//xfail:...", its second the launch, and comments below say what is reported.
faial      FOLDER is examples/drf of Faial: racy-*.cu and drf-*.cu; those that its tests list as unsupported included.

A case has no host code. For each one a launcher and a contract are written:
- the launch is the case's own, as constants (blocks of more than 1,024 threads cut to that); without one, one block of 1,024;
- every pointer gets a tensor of 4 MiB, with any contents (and where that leads to no answer, integers from 0 to 63, for
  refutations only);
- an integer gets a dim: from 0 to the largest value of its type, or what __requires says of it. Negative values are not tried.
  What __requires says otherwise is not used; a floating-point number is 1.5;
- dynamic shared memory has 16 KiB.
What is compared is `race` and `barrier`. These verifiers let arrays be as large as needed, so a race that is proved apart from
`bounds` counts as proved; the table says how many of these there are. A case is read if it compiles and is launched.
A wrong case that is proved is built again without optimisation: if that is not proved, the compiler had removed the defect.

--out appends one JSON object per case, so that a run can be continued. A filter is part of a case's name.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BYTES = 4 << 20
SHARED = 16384
LARGEST_BLOCK = 1024
SMALL = 63
MOST = (1 << 31) - 1

# What the cases use of their verifier. Specifications say nothing to the compiler.
HEADER = """#pragma once
#include <cassert>
#include <cstdint>
#undef __requires
#undef __ensures
#undef __assume
#define __requires(...) ((void)0)
#define __ensures(...) ((void)0)
#define __requires_fresh_array(...) ((void)0)
#define __invariant(...) ((void)0)
#define __global_invariant(...) ((void)0)
#define __function_wide_invariant(...) ((void)0)
#define __assert(...) ((void)0)
#define __global_assert(...) ((void)0)
#define __assume(...) ((void)0)
#define __axiom(...)
#define main main_of_the_case

// Arguments of whatever type the kernel takes.
struct Pointer {
  void* to;
  template <class T>
  operator T*() const { return (T*)to; }
};
struct Number {
  long long value;
  template <class T>
  operator T() const { return (T)value; }
};
"""

# What a case that uses these words needs.
HEADERS = {"cooperative_groups": "cooperative_groups.h", "curand": "curand_kernel.h", "Mtgp32": "curand_mtgp32_kernel.h"}

# C++ type -> dtype of a tensor, and largest value of a dim
INTEGERS = {
    "int": ("i32", MOST), "signed": ("i32", MOST), "signed int": ("i32", MOST),
    "unsigned": ("u32", MOST), "unsigned int": ("u32", MOST), "uint": ("u32", MOST),
    "long": ("i64", MOST), "long long": ("i64", MOST), "long long int": ("i64", MOST),
    "unsigned long": ("u64", MOST), "unsigned long long": ("u64", MOST), "size_t": ("u64", MOST),
    "unsigned long long int": ("u64", MOST),
    "short": ("i16", 32767), "short int": ("i16", 32767), "unsigned short": ("i16", 32767),
    "char": ("i8", 127), "signed char": ("i8", 127), "unsigned char": ("u8", 255),
    "uchar": ("u8", 255), "bool": ("u8", 1),
}
FLOATS = {"float": "f32", "double": "f64"}
BYTES_OF = {"f64": 8, "f32": 4, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "i16": 2, "i8": 1, "u8": 1}


class NotRead(Exception):
    """The case cannot be turned into a contract."""


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def vector(text, default):
    """--blockDim=64, =[64,2], ={64,2,1}"""
    if text is None:
        return default
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    return (numbers + [1, 1])[:3]


def gpuverify_cases(folder):
    for source in sorted(folder.rglob("*.cu")):
        text = source.read_text(errors="replace")
        lines = text.splitlines()
        name = str(source.parent.relative_to(folder))
        comments = [line[2:].strip() for line in lines[2:12] if line.startswith("//")]
        first = lines[0].strip().lower()
        yield name, source, {
            "expected": "right" if first == "//pass" else "wrong" if "not_all_verified" in first else "not verified",
            "about": subject_of(" ".join(comments)) if "not_all" in first else "",
            "grid": vector(option(lines[1], "gridDim"), [1, 1, 1]),
            "block": vector(option(lines[1], "blockDim"), [1, 1, 1]),
            "options": lines[1][2:].strip(),
            "flags": re.findall(r"-D\S+", lines[1]),
        }


def faial_cases(folder):
    listed = (folder / "test.ml").read_text() if (folder / "test.ml").exists() else ""
    unsupported = listed.split("unsupported", 1)[1] if "unsupported" in listed else ""
    for source in sorted(folder.glob("*.cu")):
        if not source.name.startswith(("racy-", "drf-")):
            continue
        text = source.read_text(errors="replace")
        yield source.stem, source, {
            "expected": "right" if source.name.startswith("drf-") else "wrong",
            "about": "race",
            "grid": vector(option(text, "gridDim"), [1, 1, 1]),
            "block": vector(option(text, "blockDim"), [LARGEST_BLOCK, 1, 1]),
            "options": "unsupported by Faial" if f'"{source.name}"' in unsupported else "",
            "flags": [],
        }


def option(text, name):
    found = re.search(rf"--{name}=(\[[^\]]*\]|\{{[^}}]*\}}|\d+)", text)
    return found[1] if found else None


def subject_of(comments):
    """What the comments of a failing case say is reported."""
    if re.search(r"\brac[ey]|(Write|Read|Atomic) by thread", comments, re.IGNORECASE):
        return "race"
    if re.search(r"barrier|diverge", comments, re.IGNORECASE):
        return "barrier"
    if re.search(r"null pointer|assert|invariant|constant memory|0-sized", comments, re.IGNORECASE):
        return "other"
    return "not said"


def kernel_of(text):
    """Name, parameters and template parameters of the first kernel that has a body."""
    found = re.search(
        r"(template\s*<(?P<template>[^>]*)>\s*)?(extern\s+\"C\"\s+)?(static\s+)?(__launch_bounds__\s*\([^)]*\)\s*)?__global__\s+"
        r"(static\s+|inline\s+)*(void)\s+(__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\(", text)
    if not found:
        raise NotRead("no kernel")
    depth, at = 1, found.end()
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    if text[at:].lstrip()[:1] == ";":
        return kernel_of(text[at:])
    return found["name"], split(text[found.end():at - 1]), found["template"]


def split(text):
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text + ","):
        depth += c in "(<[{"
        depth -= c in ")>]}"
        if c == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in parts if part and part != "void"]


def typedefs_of(text):
    """Names for plain types."""
    names = {}
    for what, name in re.findall(r"typedef\s+([\w\s]+?)\s+(\w+)\s*;", text):
        names[name] = what.strip()
    return names


def plain(kind, typedefs, template):
    kind = re.sub(r"\b(const|volatile|__restrict__|__restrict|restrict|struct|register)\b", " ", kind)
    kind = " ".join(kind.split())
    for _ in range(3):
        kind = typedefs.get(kind, kind)
    if template and re.search(rf"(typename|class)\s+{re.escape(kind)}\b", template):
        return "float"
    return kind


def enumerations_of(text):
    """By name, how many values each has."""
    found = {}
    for before, values, after in re.findall(r"enum\s+(?:class\s+)?(\w*)[^{;]*\{([^}]*)\}\s*(\w*)", text):
        for name in filter(None, (before, after)):
            found[name] = len(split(values))
    return found


def parameters_of(parameters, typedefs, enumerations, template):
    """(what, name, type): what is "pointer", "integer", "enumeration" (then the type is how many values it has) or "float"."""
    found = []
    for number, text in enumerate(parameters):
        text = text.split("=")[0].strip()
        if "(" in text or "&" in text:
            raise NotRead(f"a parameter that is no pointer or number: {text}")
        match = re.match(r"(?P<type>.*?)\s*(?P<name>\w+)\s*(?P<array>(\[[^\]]*\]\s*)*)$", text.replace("*", " * "), re.DOTALL)
        if not match:
            raise NotRead(f"a parameter that is no pointer or number: {text}")
        name = match["name"]
        base = plain(match["type"].replace("*", " "), typedefs, template)
        stars = match["type"].count("*")
        if stars + bool(match["array"]) > 1:
            raise NotRead(f"a pointer to pointers: {text}")
        if stars or match["array"]:
            found.append(("pointer", name, base))
        elif base in INTEGERS:
            found.append(("integer", name, base))
        elif base in enumerations:
            found.append(("enumeration", name, enumerations[base]))
        elif base in FLOATS:
            found.append(("float", name, base))
        else:
            raise NotRead(f"a parameter of type {base}")
    return found


def requirements(text, name, most, launch):
    """The range that __requires gives to a parameter; what it says otherwise is left out."""
    low, high = 0, most
    for condition in re.findall(r"__(?:requires|assume)\s*\((.*?)\)\s*;", text, re.DOTALL):
        for part in condition.split("&&"):
            match = re.match(rf"\s*\(?\s*{re.escape(name)}\s*(==|<=|>=|<|>)\s*([\w\s.*+()-]+?)\s*\)?\s*$", part)
            if not match:
                continue
            value = number_of(match[2], text, launch)
            if value is None:
                continue
            if match[1] == "==":
                low = high = value
            elif match[1] in ("<", "<="):
                high = min(high, value - (match[1] == "<"))
            else:
                low = max(low, value + (match[1] == ">"))
    if low > high or low < 0:
        raise NotRead(f"__requires of {name}: {low} to {high}")
    return low, high


def number_of(text, source, launch):
    """A constant expression over numbers, macros of the case and the launch."""
    for _ in range(4):
        for macro, value in re.findall(r"^\s*#\s*define\s+(\w+)\s+([^\n]+)$", source, re.MULTILINE):
            text = re.sub(rf"\b{macro}\b", f"({value.strip()})", text)
    for axis, which in enumerate("xyz"):
        text = text.replace(f"blockDim.{which}", str(launch["block"][axis]))
        text = text.replace(f"gridDim.{which}", str(launch["grid"][axis]))
    text = re.sub(r"(?<=\d)[uUlL]+\b", "", text)
    if not re.fullmatch(r"[\d\s()+*-]+", text):
        return None
    try:
        return int(eval(text))  # digits and operators only
    except SyntaxError:
        return None


def write_case(source, case, folder, flags, small):
    """The launcher and the contract of a case."""
    text = without_comments(source.read_text(errors="replace"))
    name, parameters, template = kernel_of(text)
    template_arguments = ""
    if template:
        if any(not re.match(r"\s*(typename|class)\b", part) for part in split(template)):
            raise NotRead("a template over a value")
        template_arguments = "<" + ", ".join("float" for _ in split(template)) + ">"
    block = list(case["block"])
    while block[0] * block[1] * block[2] > LARGEST_BLOCK:
        block[block.index(max(block))] //= 2
    launch = {"grid": case["grid"], "block": block}
    arguments, signature, values, dims, tensors, scalars, formula = [], [], [], [], [], [], []
    for number, (what, parameter, kind) in enumerate(parameters_of(parameters, typedefs_of(text), enumerations_of(text), template)):
        own = f"p{number}"
        arguments.append(own)
        if what == "pointer":
            dtype = INTEGERS[kind][0] if kind in INTEGERS else FLOATS.get(kind, "u8")
            tensors.append(f'[tensors.{own}]\ndtype = "{dtype}"\nshape = [{BYTES // BYTES_OF[dtype]}]\nrole = "inout"')
            if small and not dtype.startswith("f"):
                tensors[-1] += f'\nvalues = "integers(0, {SMALL})"'
            formula.append(f"{own}[i] = {own}[i]")
            signature.append(f"void* {own}")
            values.append(f"Pointer{{{own}}}")
        elif what in ("integer", "enumeration"):
            low, high = requirements(text, parameter, INTEGERS[kind][1] if what == "integer" else kind - 1, launch)
            dims.append(f"{own} = {low}" if low == high else f"{own} = {{ min = {low}, max = {high} }}")
            signature.append(f"int {own}")
            values.append(f"Number{{{own}}}")
        else:
            scalars.append(f'[scalars.{own}]\ndtype = "{FLOATS[kind]}"\nvalue = 1.5')
            signature.append(f"{kind} {own}")
            values.append(own)
    if not tensors:
        tensors.append('[tensors.nothing]\ndtype = "u8"\nshape = [1]\nrole = "inout"')
        formula.append("nothing[i] = nothing[i]")
        signature.append("void* nothing")
        arguments.append("nothing")
    more = "".join(f"#include <{header}>\n" for word, header in HEADERS.items() if word in text)
    if "cooperative_groups" in text:
        more += "#define synchronize cooperative_groups::sync\n"  # as it was called
    (folder / "suite.h").write_text(HEADER + more)
    shared = SHARED if re.search(r"extern\s+__shared__", text) else 0
    grid_text, block_text = (", ".join(map(str, v)) for v in (case["grid"], block))
    if re.search(r"this_grid|grid_group", text):
        addresses = ", ".join(f"&p{i}" for i in range(len(values)))
        call = (f"  void* all[] = {{{addresses}}};\n  cudaLaunchCooperativeKernel((void*){name}{template_arguments}, "
                f"dim3({grid_text}), dim3({block_text}), all, {shared}, stream);")
    else:
        call = f"  {name}{template_arguments}<<<dim3({grid_text}), dim3({block_text}), {shared}, stream>>>({', '.join(values)});"
    launcher = (f'#include "suite.h"\n#include "{source}"\nextern "C" void launch_case({", ".join(signature + ["cudaStream_t stream"])}) '
                f"{{\n{call}\n}}\n")
    (folder / "launcher.cu").write_text(launcher)
    listed = ", ".join(f'"{argument}"' for argument in arguments + ["stream"])
    (folder / "contract.toml").write_text(
        f'[kernel]\nsource = "launcher.cu"\nentry = "launch_case"\nargs = [{listed}]\nflags = {json.dumps(flags)}\n\n[dims]\n' + "\n".join(dims or ["one = 1"]) +
        "\n\n" + "\n\n".join(tensors + scalars) + '\n\n[reference]\nformula = """\n' + "\n".join(formula) + '\n"""\n')


def prove(assay, folder, seconds):
    out = folder / "proof.json"
    done = subprocess.run([assay, "prove", folder / "contract.toml", "--json", out, "--time", str(seconds)],
                          capture_output=True, text=True)
    proof = json.loads(out.read_text()) if out.exists() else {"problem": done.stderr.strip(), "obligations": []}
    return proof


PROVED = ("proved", "apart from bounds")
UNOPTIMISED = ["-Xcicc", "-O0"]
ON_BOUNDS = "it depends on accesses being in bounds"


def answer_of(proof):
    """proved, proved apart from bounds, refuted or unknown; and why."""
    if proof.get("problem"):
        lines = proof["problem"].strip().splitlines()
        errors = [line for line in lines if re.search(r"error|fatal", line)]
        raise NotRead((errors[1:] or errors or lines)[0])
    wanted = [o for o in proof["obligations"] if o["obligation"] in ("race", "barrier")]
    if not wanted:
        raise NotRead("nothing is launched")
    refuted = [o for o in wanted if o["status"] == "refuted"]
    if refuted:
        return "refuted", f"{refuted[0]['obligation']}: {refuted[0]['reason']}"
    answer, why = "proved", ""
    for one in wanted:
        if one["status"] == "proved":
            continue
        reasons = [place["reason"] for place in one["places"] if place["status"] != "proved"]
        if one["obligation"] == "race" and reasons and all(r.startswith(ON_BOUNDS) for r in reasons):
            answer = "apart from bounds"
        else:
            return "unknown", f"{one['obligation']}: {(reasons or [one['reason']])[0]}"
    return answer, why


def ask(assay, source, case, seconds, folder, flags, small=False):
    """The answer, why, and the status of every obligation."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_case(source.resolve(), case, folder, case["flags"] + flags, small)
        proof = prove(assay, folder, seconds)
        answer, why = answer_of(proof)
    except NotRead as reason:
        return {"answer": "not read", "why": str(reason)}
    return {"answer": answer, "why": why, "seconds": round(proof.get("seconds", 0), 1),
            "all": {o["obligation"]: o["status"] for o in proof["obligations"]}}


def run_case(assay, name, source, case, seconds, folder):
    record = {"name": name, "expected": case["expected"], "about": case["about"], "options": case["options"]}
    record.update(ask(assay, source, case, seconds, folder, []))
    # Integers of any size that are used as indices mostly lead out of bounds. What is shown with small ones is shown.
    if record["answer"] == "unknown":
        small = ask(assay, source, case, seconds, folder / "small", [], small=True)
        if small["answer"] == "refuted":
            record.update(small)
    # What nobody reads the compiler removes, the defect with it.
    if record["expected"] == "wrong" and record["answer"] in PROVED:
        record["unoptimised"] = ask(assay, source, case, seconds, folder / "unoptimised", UNOPTIMISED)
        if record["unoptimised"]["answer"] not in PROVED:
            record["answer"] = "removed"
            record["why"] = f"unoptimised: {record['unoptimised']['answer']}, {record['unoptimised']['why']}"
    return record


def table(records):
    """Per expectation, how many cases got which answer."""
    columns = ("proved", "apart from bounds", "refuted", "unknown", "removed", "not read")
    rows = collections.OrderedDict()
    for record in records:
        what = record["expected"] + (f", {record['about']}" if record["about"] and record["expected"] == "wrong" else "")
        rows.setdefault(what, collections.Counter())[record["answer"]] += 1
    lines = ["| expected | cases | " + " | ".join(columns) + " |", "| --- |" + " --- |" * (len(columns) + 1)]
    for what, counts in sorted(rows.items()):
        lines.append(f"| {what} | {sum(counts.values())} | " + " | ".join(str(counts[c]) for c in columns) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("suite", choices=("gpuverify", "faial"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--assay", default="build/release/bin/assay")
    parser.add_argument("--time", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--expected", choices=("right", "wrong"), help="only these cases")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="keep launchers and contracts here")
    options = parser.parse_intermixed_args()
    if not options.folder.is_dir():
        sys.exit(f"{options.folder} is no folder: give the suite's folder of cases")
    cases = {"gpuverify": gpuverify_cases, "faial": faial_cases}[options.suite](options.folder)
    records = []
    if options.out and options.out.exists():
        records = [json.loads(line) for line in options.out.read_text().splitlines()]
    known = {record["name"] for record in records}
    with tempfile.TemporaryDirectory() as temporary:
        keep = options.keep.resolve() if options.keep else pathlib.Path(temporary)
        wanted = [one for one in cases if one[0] not in known and
                  (not options.expected or one[2]["expected"] == options.expected) and
                  (not options.filters or any(part in one[0] for part in options.filters))]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for record in pool.map(lambda one: run_case(options.assay, *one, options.time,
                                                        keep / one[0].replace("/", ".")), wanted):
                records.append(record)
                print(f"{record['expected']:12} {record['answer']:17} {record['name']}  {record['why']}", flush=True)
                if options.out:
                    with options.out.open("a") as out:
                        out.write(json.dumps(record) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
