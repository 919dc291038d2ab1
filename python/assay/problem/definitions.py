"""Where a function is defined in a source text, for findings that no better line is known for."""
from __future__ import annotations

import ast
import re


def line_in_python(source: str, path: str) -> int:
    """The line of `def` or `class` of a dotted name: "run", "ModelNew.forward". 0: there is none."""
    try:
        body, line = ast.parse(source).body, 0
    except (SyntaxError, ValueError):
        return 0
    for name in path.split("."):
        found = [node for node in body if getattr(node, "name", None) == name]
        if not found:
            return line
        line, body = found[-1].lineno, getattr(found[-1], "body", [])
    return line


def line_in_cpp(source: str, name: str) -> int:
    """The line on which a function's definition begins: one that names it, with no `;` before its body. 0: none."""
    definition = re.search(r"^[^\n;{}()=.]*\b%s\s*\([^;{}]*\{" % re.escape(name), source, re.MULTILINE)
    return source.count("\n", 0, definition.start()) + 1 if definition else 0
