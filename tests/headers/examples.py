#!/usr/bin/env python3
"""Compiles the examples in the opening comments of headers.

An example is what stands four columns further in, after a line that says so:

    // Example:
    //
    //     Arena arena;
    //     double* values = arena.get<double>(256);

Each becomes a function in its header's namespace, with the names of tests/headers/given.h; all of them are one file,
which the compiler only checks. An error is reported at its line in the header. The first public header of a room
(docs/architecture.md) must have an example.

usage: examples.py ROOT COMPILER [OPTION...]
"""

import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True


def examples(header):
    """(line number, lines of code) of each example of a header."""
    lines = header.read_text().splitlines()
    number = 0
    while number < len(lines):
        if not re.match(r"\s*// (.* )?[Ee]xample:$", lines[number]):
            number += 1
            continue
        number += 1
        if number < len(lines) and lines[number].strip() == "//":
            number += 1
        first = number
        code = []
        while number < len(lines) and (found := re.match(r"\s*//(?:     (.*))?$", lines[number])):
            code.append(found[1] or "")
            number += 1
        yield first + 1, code


def namespace_of(header):
    found = re.search(r"^namespace (assay[\w:]*) \{", header.read_text(), re.MULTILINE)
    return found[1] if found else "assay"


def without_example(root):
    """Public headers that open a room and show nothing."""
    sys.path.insert(0, str(root / "tests" / "rooms"))
    from rooms import ALL, rooms_drawn

    page = root / "docs" / "architecture.md"
    for room, (_, public) in rooms_drawn(page).items():
        row = re.search(rf"^\| `{room}` \|[^|]*\| `([^`]+)`", page.read_text(), re.MULTILINE)
        if public != ALL and row and not list(examples(root / "src" / room / row[1])):
            yield f"src/{room}/{row[1]}: no example; one shows how the room is used"


def main():
    root = pathlib.Path(sys.argv[1])
    headers = [h for h in sorted((root / "src").rglob("*.h")) if list(examples(h))]
    text = ['#include "headers/given.h"']
    text += [f'#include "{header.relative_to(root / "src")}"' for header in headers]
    count = 0
    for header in headers:
        for line, code in examples(header):
            count += 1
            # A block of its own, so that an example may declare a name that is also given.
            text += [f"namespace {namespace_of(header)} {{", f"void example_{count}(GIVEN) {{{{",
                     f'#line {line} "{header}"', *code, "}}}"]
    command = [*sys.argv[2:], "-fsyntax-only", "-w", f"-I{root / 'src'}", f"-I{root / 'tests'}", "-x", "c++", "-"]
    done = subprocess.run(command, input="\n".join(text) + "\n", text=True)
    missing = list(without_example(root))
    for line in missing:
        print(line)
    print(f"{count} examples in {len(headers)} headers")
    sys.exit(1 if done.returncode or missing else 0)


if __name__ == "__main__":
    main()
