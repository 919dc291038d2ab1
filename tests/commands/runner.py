#!/usr/bin/env python3
"""Golden tests of whole commands: what a user types, and everything that comes back.

    runner.py --assay build/release/bin/assay [--update] [--jobs N] [FILTER ...]

Every *.txt file below this folder is a case. It begins with `#` lines that say what the case shows; sections
follow, each introduced by a line that begins with `=== `:

    === needs WORD ...           skip the case without these: nvcc, or no-gpu
    === file NAME                an input file; the lines that follow are its text
    === copy NAME [from INPUT]   an input file that several cases share, from inputs/
    === npy NAME DTYPE EXTENT... a NumPy file; the numbers that follow are its elements
    === run COMMAND              a shell command, run in the case's own empty folder. `assay` is the program under test
    === status N                 its exit status, if not 0
    === stdout                   what it printed, if anything
    === stderr
    === json FILE FIELD ...      fields of a JSON file that it wrote: `findings.*.kind` is the kind of each finding
    === written FILE             a whole file that it wrote

A case has as many inputs and commands as it needs; the files are all there before the first command runs. What
follows a `run` is what is expected of that command, in the order above. --update writes these sections anew from
what the commands do now: write a case without them, run --update, read the result. To expect a file, write an
empty `json` or `written` section first.

Blank lines at the end of a section do not count. Before anything is compared, what varies from one run or machine
to the next is replaced (SUBSTITUTIONS below).
"""

import argparse
import concurrent.futures
import dataclasses
import difflib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
INPUTS = HERE / "inputs"
MARK = "=== "
TIME_LIMIT = 120  # seconds for one command
SETUP = ("needs", "file", "copy", "npy")
EXPECTED = ("status", "stdout", "stderr", "json", "written")



def coverage_sentence(found):
    """How many trials fit into the budget depends on the machine, and where the sentence is wrapped on its numbers."""
    text = re.sub(r"\s*\n\s*", " ", found[0])
    text = re.sub(r"\b(\d+ of \d+ planned trials?|\d+ trials? \((?:all )?\d+ planned\)|\d+ trials?)", "<n> trials", text)
    return re.sub(r"\b\d+ (shape|element)s?\b", r"<n> \1s", text)


# Applied in this order, after the folders of the run have been replaced by <case>, <cache>, <tmp> and <assay>.
SUBSTITUTIONS = [
    (r"^ *(?:\d+ of )?\d+ (?:planned )?trials?\b[^;]*?seed\s+\d+$", coverage_sentence),
    # How many values a proof compares depends on the time.
    (r"\b\d+ elements? at \d+ shapes?\b", "<n> elements at <n> shapes"),
    # Durations, with the spaces that align them; attributes of JUnit.
    (r" *\b\d+(?:\.\d+)?(?:e-\d+)? m?s\b", " <time>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
    (r'\b(time|timestamp)="[^"]*"', r'\1="<time>"'),
    # The column of medians of `assay corpus`.
    (r"^(  .{34}(?: +\d+){3}) +\d+\.\d\b", r"\1 <time>"),
    # Seeds of single trials follow from the seed given and the plan; names in the cache are hashes.
    (r"\bseed \d{6,}", "seed <seed>"),
    (r"\b(?:[0-9a-f]{12}|[0-9a-f]{16})\b", "<hash>"),
    (r"\b0x[0-9a-f]{6,}\b", "<address>"),
    # Places in a program that the compiler laid out.
    (r"\+0x[0-9a-f]+\b", "+<offset>"),
]


class BadCase(Exception):
    """The case itself is wrong: its text cannot be read."""


@dataclasses.dataclass
class Section:
    kind: str
    argument: str
    text: str

    def __str__(self):
        head = f"{MARK}{self.kind} {self.argument}".rstrip() + "\n"
        return head + self.text


@dataclasses.dataclass
class Outcome:
    path: Path
    status: str  # passed, failed, updated, skipped, broken
    detail: str = ""


def without_blank_end(text):
    text = text.rstrip()
    return text + "\n" if text else ""


def read_case(path):
    """The comment at the top, and the sections."""
    comment, sections = "", []
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith(MARK):
            kind, _, argument = line[len(MARK):].strip().partition(" ")
            if kind not in SETUP + EXPECTED + ("run",):
                raise BadCase(f"'{kind}' is no kind of section")
            sections.append(Section(kind, argument, ""))
        elif sections:
            sections[-1].text += line
        else:
            comment += line
    for section in sections:
        section.text = without_blank_end(section.text)
    if not comment.startswith("# "):
        raise BadCase("the first line says what the case shows: `# ...`")
    if not any(section.kind == "run" for section in sections):
        raise BadCase("there is no `=== run COMMAND`")
    return without_blank_end(comment), sections


def write_case(comment, sections):
    """Inputs and commands stand apart; what is expected of a command follows it directly."""
    text = comment
    for section in sections:
        text += ("" if section.kind in EXPECTED + ("needs",) else "\n") + str(section)
    return text


# ---- inputs

NPY_TYPES = {"f64": ("<f8", "d"), "f32": ("<f4", "f"), "f16": ("<f2", "e"), "i64": ("<i8", "q"), "i32": ("<i4", "i")}


def npy_bytes(argument, text):
    dtype, *extents = argument.split()[1:]
    if dtype not in NPY_TYPES:
        raise BadCase(f"npy files of {dtype} are not supported: {', '.join(NPY_TYPES)}")
    descr, code = NPY_TYPES[dtype]
    numbers = [(float if dtype.startswith("f") else int)(word) for word in text.split()]
    shape = "".join(extent + ", " for extent in extents)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}"
    header = header.ljust(117) + "\n"  # with the ten bytes before it a multiple of 64
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    return head + struct.pack(f"<{len(numbers)}{code}", *numbers)


def write_inputs(sections, folder):
    for section in sections:
        if section.kind not in ("file", "copy", "npy"):
            continue
        target = folder / section.argument.split()[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        if section.kind == "file":
            target.write_text(section.text)
        elif section.kind == "copy":
            shutil.copyfile(INPUTS / Path(section.argument.split()[-1]).name, target)
        else:
            target.write_bytes(npy_bytes(section.argument, section.text))


# ---- commands

def nvcc_folder():
    beside_home = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
    found = shutil.which("nvcc") or shutil.which("nvcc", path=beside_home)
    return os.path.dirname(found) if found else None


def missing_needs(sections):
    there = {"nvcc": nvcc_folder() is not None, "no-gpu": not os.path.exists("/dev/nvidiactl")}
    words = [word for section in sections if section.kind == "needs" for word in section.argument.split()]
    for word in words:
        if word not in there:
            raise BadCase(f"'{word}' cannot be needed: {', '.join(there)}")
    return [word for word in words if not there[word]]


def environment(assay, cache, folder):
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "XDG_", "LC_"))}
    path = [str(assay.parent), nvcc_folder(), own.get("PATH")]
    # What is expected is the same with and without a GPU.
    own.update(PATH=":".join(filter(None, path)), HOME=str(folder), TMPDIR=str(folder.parent), LC_ALL="C.UTF-8",
               XDG_CACHE_HOME=str(cache), NO_COLOR="1", ASSAY_DEVICE="virtual")
    return own


def run_command(command, folder, variables):
    """Exit status, stdout and stderr. A command that does not end is stopped with all that it started."""
    process = subprocess.Popen(["sh", "-c", command], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err += f"\n(stopped after {TIME_LIMIT} seconds)\n".encode()
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def fields(value, keys, name=""):
    """(name, value) of every field that keys such as findings, *, kind lead to."""
    if not keys:
        return [(name[1:], value)]
    key, *rest = keys
    items = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
    chosen = [one for one in items if key in ("*", str(one))]
    return [field for one in chosen for field in fields(items[one], rest, f"{name}.{one}")]


def written_text(section, folder):
    name, *paths = section.argument.split()
    try:
        text = (folder / name).read_text(errors="replace")
        if section.kind == "written":
            return text
        value = json.loads(text)
    except OSError:
        return "(not written)\n"
    except ValueError as error:
        return f"(not JSON: {error})\n"
    lines = []
    for path in paths:
        found = fields(value, path.split("."))
        lines += [f"{name} = {json.dumps(one, ensure_ascii=False)}\n" for name, one in found] or [f"{path}: nothing\n"]
    return "".join(lines)


# ---- cases

class Normaliser:
    def __init__(self, assay, cache, folder):
        self.folders = [(str(folder), "<case>"), (str(cache), "<cache>"), (str(folder.parent), "<tmp>"),
                        (str(assay.parent.parent), "<assay>")]

    def __call__(self, text):
        for folder, name in self.folders:
            text = text.replace(folder, name)
        for pattern, replacement in SUBSTITUTIONS:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        return without_blank_end("\n".join(line.rstrip() for line in text.splitlines()))


def observe(sections, folder, variables, normal):
    """The sections as the commands would have them now."""
    seen = []
    for i, section in enumerate(sections):
        if section.kind in EXPECTED:
            continue
        seen.append(section)
        if section.kind != "run":
            continue
        status, out, err = run_command(section.argument, folder, variables)
        if status != 0:
            seen.append(Section("status", str(status), ""))
        seen += [Section(kind, "", normal(text)) for kind, text in (("stdout", out), ("stderr", err)) if normal(text)]
        for wanted in sections[i + 1:]:
            if wanted.kind not in EXPECTED:
                break
            if wanted.kind in ("json", "written"):
                seen.append(Section(wanted.kind, wanted.argument, normal(written_text(wanted, folder))))
    return seen


def run_case(path, assay, cache, scratch, update):
    try:
        text = path.read_text()
        comment, sections = read_case(path)
        if missing := missing_needs(sections):
            return Outcome(path, "skipped", "needs " + ", ".join(missing))
        folder = Path(tempfile.mkdtemp(dir=scratch)).resolve()
        write_inputs(sections, folder)
        seen = observe(sections, folder, environment(assay, cache, folder), Normaliser(assay, cache, folder))
    except (BadCase, OSError, ValueError) as error:
        return Outcome(path, "broken", str(error))
    now = write_case(comment, seen)
    if now == text:
        return Outcome(path, "passed")
    if update:
        path.write_text(now)
        return Outcome(path, "updated")
    lines = difflib.unified_diff(text.splitlines(), now.splitlines(), "expected", "seen", n=4, lineterm="")
    return Outcome(path, "failed", "\n".join(list(lines)[2:]))


def coloured(diff):
    if not sys.stdout.isatty():
        return diff
    colours = {"-": "\033[31m", "+": "\033[32m", "@": "\033[36m"}
    return "\n".join(f"{colours[line[0]]}{line}\033[0m" if line[:1] in colours else line for line in diff.split("\n"))


def show(outcome):
    name = outcome.path.relative_to(HERE)
    if outcome.status == "failed":
        print(f"FAILED   {name}  (- expected, + seen)\n{coloured(outcome.detail)}\n", flush=True)
    elif outcome.status != "passed":
        print(f"{outcome.status.upper():8} {name}  {outcome.detail}".rstrip(), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Golden tests of whole commands; README.md says more.")
    parser.add_argument("--assay", type=Path, required=True, help="the program under test")
    parser.add_argument("--update", action="store_true", help="rewrite what the cases expect from what happens now")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="cases run at a time")
    parser.add_argument("filter", nargs="*", help="only cases whose path contains one of these")
    options = parser.parse_args()
    assay = options.assay.resolve(strict=True)
    cases = [path for path in sorted(HERE.glob("**/*.txt")) if path.parent != INPUTS]
    paths = [path for path in cases
             if not options.filter or any(word in str(path.relative_to(HERE)) for word in options.filter)]
    if not paths:
        sys.exit("no case has such a name")
    counts = dict.fromkeys(("passed", "failed", "updated", "skipped", "broken"), 0)
    with tempfile.TemporaryDirectory(prefix="assay-commands-") as scratch:
        cache = Path(scratch).resolve() / "cache"
        cache.mkdir()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for outcome in pool.map(lambda path: run_case(path, assay, cache, scratch, options.update), paths):
                counts[outcome.status] += 1
                show(outcome)
    print(", ".join(f"{count} {status}" for status, count in counts.items() if count))
    return 1 if counts["failed"] or counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
