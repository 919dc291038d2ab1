#!/usr/bin/env python3
"""Which files of a room must not be compiled together with the others: those that give another meaning to a name in an
anonymous namespace. Prints them, one a line; with --why also the names. Called by unity.cmake.

Reads what clang-format writes: a declaration begins in the first column, a namespace ends in a line of its own."""

import pathlib
import re
import sys

TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?) +(?:\[\[\w+\]\] +)?(\w+)\b(?! *::)")
FUNCTION = re.compile(r"([~\w]+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)?")


def parameter_types(text):
    """What of a parameter list tells overloads apart: its words but the last of each, which is the name."""
    types = []
    for one in re.split(r",(?![^<]*>)", re.sub(r"\s*=[^,]*", "", text)):
        words = one.replace("&", " & ").replace("*", " * ").split()
        types.append(" ".join(words[:-1] if len(words) > 1 and re.fullmatch(r"\w+", words[-1]) else words))
    return ", ".join(types)


def declared(text):
    """What a file names in its anonymous namespaces, functions with their parameters; aliases with their meaning."""
    text = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', '""', text)
    names = {}
    scopes = []  # True for each open anonymous namespace
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if re.match(r"namespace(?: [\w:]+)? \{$", line):
            scopes.append(line == "namespace {")
            continue
        if line.startswith("}  // namespace") and scopes:
            scopes.pop()
            continue
        is_static = line.startswith("static ")
        if not ((scopes and scopes[-1]) or is_static) or not re.match(r"[A-Za-z_\[]", line) or line.startswith(("template", "TEST", "namespace")):
            continue
        whole = line
        while whole.count("(") > whole.count(")") and at + 1 < len(lines):  # a list of parameters in several lines
            at += 1
            whole += " " + lines[at].strip()
        if whole.startswith("using namespace"):
            continue
        alias = re.match(r"using (?:(\w+) =|(?:::)?(?:\w+::)*(\w+);)", whole)
        if alias:  # the same words mean the same thing
            names[alias.group(1) or alias.group(2)] = whole.replace(" ::", " ")
            continue
        kind = TYPE.match(whole)
        if kind:
            names[kind.group(1)] = None
            continue
        head = re.split(r"[={;]", whole, maxsplit=1)[0]
        function = FUNCTION.search(head)
        if function and not head.startswith(("INSTANTIATE", "MATCHER", "constexpr const char*")):
            names[f"{function.group(1)}({parameter_types(function.group(2))})"] = None
        else:
            constants = re.match(r"(?:static )?const", whole) and "=" in whole
            found = re.findall(r"\b(k[A-Z]\w*)(?:\[[^\]]*\])* *[={]", whole) if constants else re.findall(r"(\w+)\s*$", head)
            names.update(dict.fromkeys(found))
    return names


def called(text, names):
    """Those of the names that a file calls as functions."""
    return {name for name in re.findall(r"(?<![\w.>:])(\w+)\(", text) if name in names}


def functions_of_all():
    """Functions that every room calls without naming a namespace, and that one of a room would hide."""
    names = set()
    for header in (pathlib.Path(__file__).parents[1] / "src").glob("*/*.h"):
        text = header.read_text(encoding="utf-8", errors="replace")
        if "namespace assay {" in text:
            names.update(re.findall(r"^[A-Za-z_][\w:<>,&* \[\]]*[ &*](\w+)\(", text, re.MULTILINE))
    return names


def read(paths):
    """(path, text, names) of each file; one that the build is yet to write is left out."""
    files = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        files.append((path, text, declared(text)))
    return files


def main(arguments):
    why = "--why" in arguments
    files = read([a for a in arguments if a != "--why"])
    common, taken = functions_of_all(), {}
    own = {path: {name.split("(")[0] for name in names if "(" in name} for path, _, names in files}
    for path, _, names in files:
        clash = [f"{name} ({taken[name][1]})" for name, meaning in names.items()
                 if name in taken and (meaning is None or taken[name][0] != meaning)]
        hides = own[path] & common
        clash += [f"{name} ({other})" for other, text, _ in files if hides
                  for name in called(text, hides - own[other]) if other != path]
        if clash:
            print(f"{path}  {', '.join(clash)}" if why else path)
        else:
            taken.update((name, (meaning, path)) for name, meaning in names.items())


if __name__ == "__main__":
    main(sys.argv[1:])
