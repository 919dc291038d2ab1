"""`python -m assay` and the console script `assay`: the program, with this interpreter for what it runs in
Python."""

import os
import sys

from assay import paths


def main() -> None:
    os.environ.setdefault("ASSAY_PYTHON", sys.executable)
    try:
        program = paths.program()
    except FileNotFoundError as error:
        sys.exit("assay: %s" % error)
    os.execv(program, [program] + sys.argv[1:])


if __name__ == "__main__":
    main()
