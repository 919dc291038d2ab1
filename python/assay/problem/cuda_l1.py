"""CUDA-L1: KernelBench problems with answers, as rows of a file or as folders.

A file has one JSON object per line, or is one JSON object from levels to lists of rows; a row has `ref_code`
(a KernelBench problem) and `custom_code` (an answer). A folder has `ref_code.py` and `custom_code.py`. What
else holds for KernelBench holds here.
"""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

from assay.contract import Contract
from assay.problem import ProblemError, kernelbench
from assay.problem.folder import Folder


@dataclass
class Pair:
    """A problem and an answer, as texts."""
    title: str
    problem: str
    answer: Optional[str]


def describe(pair: Pair, folder: Folder) -> Contract:
    if pair.answer is None:
        raise ProblemError(f"{pair.title} has no answer (custom_code); name another row, or give an answer "
                           "of your own")
    return kernelbench.describe(pair.problem, pair.answer, pair.title, folder)


def pair_in(folder: Path) -> Optional[Pair]:
    """The pair of a folder of the repository's unpacked layout, if it is one."""
    problem, answer = folder / "ref_code.py", folder / "custom_code.py"
    if not problem.is_file():
        return None
    title = f"level {folder.parent.name} task {folder.name}"
    return Pair(title, problem.read_text(encoding="utf-8"),
                answer.read_text(encoding="utf-8") if answer.is_file() else None)


def row(path: Path, wanted: Optional[str]) -> Pair:
    """The row of a file that `wanted` names: a number counted from 1, or LEVEL/TASK."""
    rows = _rows(path)
    if wanted is None:
        raise ProblemError(f"{path} has {len(rows)} problems; name one as {path.name}:ROW (from 1) or "
                           f"{path.name}:LEVEL/TASK")
    level, _, task = wanted.partition("/")
    if task:
        found = [item for item in rows if str(item.get("level_id")) == level
                 and str(item.get("task_id")) == task]
    else:
        found = rows[int(wanted) - 1: int(wanted)] if wanted.isdigit() and int(wanted) else []
    if not found:
        raise ProblemError(f"{path} has no row {wanted}; it has {len(rows)} rows, named by number from 1 or "
                           "as LEVEL/TASK")
    item = found[0]
    return Pair(f"level {item.get('level_id')} task {item.get('task_id')}", item["ref_code"],
                item.get("custom_code"))


def _rows(path: Path) -> List[Dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError:
        rows = _rows_of_levels(path, text)
    if not rows or not all(isinstance(item, dict) and isinstance(item.get("ref_code"), str) for item in rows):
        raise ProblemError(f"{path} has no rows with `ref_code`; this is not a CUDA-L1 file")
    return rows


def _rows_of_levels(path: Path, text: str) -> List[Dict[str, Any]]:
    try:
        levels = json.loads(text)
    except json.JSONDecodeError as error:
        raise ProblemError(f"{path} is neither JSON nor one JSON object per line: line {error.lineno}, "
                           f"{error.msg}") from error
    if not isinstance(levels, dict) or not all(isinstance(rows, list) for rows in levels.values()):
        return []
    return [{"level_id": level, **item} for level, rows in levels.items() for item in rows
            if isinstance(item, dict)]
