"""The folder that a problem and a submission are written to."""
from __future__ import annotations

from pathlib import Path, PurePosixPath

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
