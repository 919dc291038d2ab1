"""The folder that a problem and a submission are written to."""
from __future__ import annotations

from pathlib import Path, PurePosixPath

from assay.contract import Contract, Inputs, Kernel, Reference, Require
from assay.problem import ProblemError


class Folder:
    """Writes files below one folder and nowhere else."""

    def __init__(self, path: Path):
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> Path:
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or not inside.parts:
            raise ProblemError(f"the submission has a source file at {name!r}; paths must be relative and "
                               "without `..`")
        path = self.path.joinpath(*inside.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


def empty_contract(title: str) -> Contract:
    """The contract of such a folder: its files are named; dims, tensors and arguments are still missing."""
    return Contract(
        title=title,
        kernel=Kernel(python="assay_adapter.py:run", returns="outputs"),
        reference=Reference(torch="problem/call.py:run", accumulate="f32", math="standard"),
        inputs=Inputs(torch="problem/call.py:make"),
        require=Require(nonfinite="warn"),  # no benchmark promises anything about NaN in inputs
    )
