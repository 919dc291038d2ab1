#!/usr/bin/env python3
"""The name of a kind of finding is written once, in src/finding/kinds.def: elsewhere in src/ it is no string literal.

    kind_names.py ROOT
"""

import pathlib
import re
import sys

# Words that are also names of kinds: (file under src/, word).
OTHER_MEANINGS = {
    ("contract/keys.cpp", "nonfinite"),  # a key of contracts
    ("contract/parse_kernel.cpp", "nonfinite"),
    ("finding/fields.h", "nonfinite"),  # a field of evidence
    ("train/report_json.cpp", "nonfinite"),  # a count
    ("cudart/event_writer.cpp", "deadlock"),  # how a launch ended
    ("reference/defects.cpp", "approximate-math"),  # a simulated defect
    ("subject/sanitizer.cpp", "misaligned"),  # compute-sanitizer's own word
}
KIND = re.compile(r'ASSAY_KIND\(\w+, "([^"]+)"')
COMMENT = re.compile(r"//[^\n]*")


def literals(folder, kinds):
    """(file, word) of every kind that is a string literal of a file in the folder."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".cpp", ".h"):
            continue
        text = COMMENT.sub("", path.read_text(encoding="utf-8"))
        for word in set(re.findall(r'"([a-z-]+)"', text)) & kinds:
            yield str(path.relative_to(folder)), word


def main(root):
    source = pathlib.Path(root) / "src"
    kinds = set(KIND.findall((source / "finding/kinds.def").read_text(encoding="utf-8")))
    if not kinds:
        sys.exit("kinds.def has no kinds")
    found = set(literals(source, kinds))
    for file, word in sorted(found - OTHER_MEANINGS):
        print(f'src/{file}: "{word}" is a kind of finding: use Kind, or to_string of it')
    for file, word in sorted(OTHER_MEANINGS - found):
        print(f'src/{file} has no "{word}" any more: remove it from {pathlib.Path(__file__).name}')
    print(f"{len(kinds)} kinds")
    return found != OTHER_MEANINGS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
