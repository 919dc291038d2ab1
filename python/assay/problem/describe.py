"""`python -m assay.problem.describe --answer FILE --problem PATH --out FOLDER`: a problem and a submission as
a contract.

Prints one JSON object: the contract's path, the format that was recognised, and notes on what was decided. A
problem or submission that cannot be used ends it with status 2 and one line on stderr that says what to do.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import List, Optional

from assay import cpu_torch  # noqa: F401  first: it prepares the import of torch
from assay.problem import ProblemError, kept
from assay.problem.folder import Folder
from assay.problem.formats import recognise


def describe(answer: str, problem: str, out: Path, row: Optional[str] = None) -> dict:
    """Writes the folder `out` and returns {"contract", "format", "notes"}."""
    submission = recognise(answer, problem, row)
    folder = Folder(out)
    contract = submission.describe(folder)
    original = submission.answer.resolve()
    contract.origin.answer = str(original)
    if submission.copies:
        copies = sorted(path.relative_to(out).as_posix() for path in out.glob(submission.copies))
        contract.origin.files = {copy: str(original) for copy in copies}
    path = folder.write("contract.toml", contract.to_toml())
    return {"contract": str(path), "format": submission.format, "notes": contract.notes}


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m assay.problem.describe",
                                     description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--answer", required=True,
                        help="the submission: a Python, CUDA or JSON file, or FILE.jsonl:ROW")
    parser.add_argument("--problem", required=True, help="the problem: a folder or a file of a benchmark")
    parser.add_argument("--out", required=True, type=Path, help="the folder to write")
    parser.add_argument("--sentence", action="store_true", help="say what was written, for people, instead of JSON")
    parser.add_argument("--row", help="the row of a CUDA-L1 file: a number, or LEVEL/TASK")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads share a busy machine with others
    with contextlib.suppress(OSError):  # a cache that cannot be tidied can still be used
        kept.use(options.out)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the problem's code prints
            described = describe(options.answer, options.problem, options.out, options.row)
    except ProblemError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"reading this problem needs a module that is not installed: {error}", file=sys.stderr)
        return 2
    if options.sentence:
        for note in described["notes"]:
            print(f"assay: {note}", file=sys.stderr)
        print(f"wrote {described['contract']}; now run `assay check {described['contract']}`")
    else:
        print(json.dumps(described))
    return 0


if __name__ == "__main__":
    sys.exit(main())
