"""The folders of problems in the cache, `problems/<hash>`: as many as may be kept, the oldest go first.

Every check of a submission writes one, and a training loop makes thousands of checks. Other processes may be checking
at the same time: a folder that was used lately is left alone, and a lock file orders "it is used" before "it is too
old".
"""
from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from pathlib import Path
from typing import Iterator, List, Tuple

MOST_KEPT = 1000  # folders of about 30 KB each; `assay replay` of a recent check still finds its contract
SECONDS_IN_USE = 3600.0  # a check that began longer ago has ended: its limits are minutes

_NAME = re.compile(r"[0-9a-f]{16}")
_REMOVED = ".removed-"  # the beginning of the name of a folder that is being deleted


def use(folder: Path) -> None:
    """Marks a problem's folder as used now, and deletes the oldest of its neighbours if there are too many.

    A folder elsewhere than in `problems` of the cache has no neighbours of ours, and is left as it is.
    """
    if folder.parent.name != "problems" or not _NAME.fullmatch(folder.name):
        return
    with _locked(folder.parent):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        removed = _set_aside(folder.parent)
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _locked(problems: Path) -> Iterator[None]:
    with open(problems / ".lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file unlocks it


def _set_aside(problems: Path) -> List[Path]:
    """Renames the folders that have to go, which takes no time; and finds those whose deletion was cut short."""
    folders: List[Tuple[float, str]] = []
    removed: List[Path] = []
    used_after = time.time() - SECONDS_IN_USE
    for entry in os.scandir(problems):
        if entry.name.startswith(_REMOVED):
            removed.append(Path(entry.path))
        elif _NAME.fullmatch(entry.name):
            folders.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
    folders.sort()
    for used, name in folders[: max(0, len(folders) - MOST_KEPT)]:
        if used < used_after:
            target = problems / f"{_REMOVED}{os.getpid()}-{name}"
            (problems / name).rename(target)
            removed.append(target)
    return removed
