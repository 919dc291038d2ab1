#!/usr/bin/env python3
"""Numbers that decide something have names: in the rooms judge, trial and assayer no floating-point literal, and no whole
number beside <, >, <= or >=, stands outside the definition of a name.

    bare_numbers.py ROOT

A name is a constexpr or a member with a default value. 0, 1, 2, 0.5, 10 and 100 mean themselves.
"""

import pathlib
import re
import sys

ROOMS = ("judge", "trial", "assayer")
PLAIN = {0.0, 0.5, 1.0, 2.0, 10.0, 100.0}
# (file under src/, expression): not thresholds.
OTHER_MEANINGS = {
    ("assayer/own_time.cpp", "waited * 1e-9"): "nanoseconds",
    ("assayer/ownership.cpp", "axis < 3"): "axes of a grid",
    ("assayer/sampled_coverage.cpp", "axis < 3"): "axes of a grid",
    ("assayer/shadow_run.h", ") : 1e9"): "no deadline",
    ("assayer/trial_runner.cpp", "bits >= 8"): "of a byte",
    ("judge/measure.cpp", "ulp <= -1023"): "exponents of doubles",
    ("trial/sparse.cpp", "bits < 8"): "of a byte",
}
NUMBER = r"(?:0x[0-9a-fA-F'.]+(?:p[+-]?\d+)?|\d[\d']*(?:\.\d*)?(?:e[+-]?\d+)?)"
FLOAT = re.compile(r"(?:[\w).\]]+ ?[-+*/:] )?(?<![\w.])(?=[\d'.a-fA-Fx]*[.ep])(" + NUMBER + r")(?![\w.])")
COMPARED = re.compile(r"(?:[\w)\]]+) (?:<|>|<=|>=) -?(" + NUMBER + r")(?![\w.])|(?<![\w.])(" + NUMBER + r") (?:<|>|<=|>=) \w+")


def code_of(text):
    """Without comments, strings, definitions of constants, and defaults of members."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', '""', text)
    blank = lambda match: "\n" * match.group(0).count("\n")
    text = re.sub(r"(?:constexpr|static_assert)\b[^;{]*(?:\{[^;]*?\})?[^;]*;", blank, text)
    return re.sub(r"^ +(?:double|float|u?int\w*|std::size_t) \w+ = [^;(]*;", blank, text, flags=re.MULTILINE)


def value(number):
    number = number.replace("'", "")
    return float.fromhex(number) if number.startswith("0x") else float(number)


def bare_numbers(text):
    """(line, expression) of each."""
    for number, line in enumerate(code_of(text).splitlines(), 1):
        for pattern in (FLOAT, COMPARED):
            for match in pattern.finditer(line):
                if value(next(group for group in match.groups() if group)) not in PLAIN:
                    yield number, match.group(0).strip()


def self_test():
    def found(text):
        return [expression for _, expression in bare_numbers(text)]

    for text, expected in (("  if (share > 0.85) return;", ["0.85", "share > 0.85"]),
                           ("  if (n < 24 || 0x1p-20 < x) f(3 * y);", ["0x1p-20", "n < 24", "0x1p-20 < x"])):
        assert found(text) == expected, found(text)
    assert found("  f(x * 1e300);") == ["x * 1e300"]
    for fine in ("constexpr double kSure = 0.85;", "  double budget = 20;", "// n < 24", '  f("0.85 > 3");',
                 "  if (n < 2 || x > 0.5) f(std::array<int, 3>{}, 1.0 / 2);", "inline constexpr double a[] = {0.3, 7};"):
        assert not found(fine), (fine, found(fine))


def main(root):
    self_test()
    source = pathlib.Path(root) / "src"
    found, failed, files = set(), False, 0
    for room in ROOMS:
        for path in sorted((source / room).rglob("*")):
            if path.suffix not in (".cpp", ".h"):
                continue
            files += 1
            name = str(path.relative_to(source))
            for line, expression in bare_numbers(path.read_text(encoding="utf-8")):
                found.add((name, expression))
                if (name, expression) not in OTHER_MEANINGS:
                    print(f"src/{name}:{line}: `{expression}`: give the number a name, a unit and a reason")
                    failed = True
    for name, expression in sorted(set(OTHER_MEANINGS) - found):
        print(f"src/{name} has no `{expression}` any more: remove it from {pathlib.Path(__file__).name}")
        failed = True
    if not files:
        sys.exit("no files")
    print(f"{files} files")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
