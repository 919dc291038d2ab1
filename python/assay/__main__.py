"""`python -m assay` and the console scripts `assay` and `assayd`: the programs, with this interpreter for what they
run in Python."""

import os
import sys

from assay import paths


def main() -> None:
    _run(paths.program)


def assayd() -> None:
    _run(lambda: paths.beside_program("assayd"))


def _run(find) -> None:
    os.environ.setdefault("ASSAY_PYTHON", sys.executable)
    try:
        program = find()
    except FileNotFoundError as error:
        sys.exit("assay: %s" % error)
    os.execv(program, [program] + sys.argv[1:])


if __name__ == "__main__":
    main()
