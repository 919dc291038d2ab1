"""A clock for time limits that a loaded machine does not distort: the time of a process and all that it has started.

On a busy machine elapsed time says little about a process. This clock advances by the processor time that the
processes use, and with elapsed time while none of them can run (all sleep, or wait). It never stops, so every limit is
reached in the end. The program has the same clock for its workers (`src/subject/process_clock.h`).
"""

import os
import time
from typing import List, NamedTuple, Tuple

LEAST_SHARE = 0.05  # of elapsed time that passes for processes that could run and do not get a processor

_TICKS = os.sysconf("SC_CLK_TCK")  # a second


class Status(NamedTuple):
    """What proc(5) says of a process or a thread."""

    wants_to_run: bool
    processor: float  # seconds, with those of children that have ended


class TreeClock:
    """Counts from its construction."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._last = time.monotonic()
        self._processor = self._read()[0]
        self._seconds = 0.0

    def seconds(self) -> float:
        """The processes' own time until now."""
        now = time.monotonic()
        elapsed, self._last = now - self._last, now
        processor, wants_to_run = self._read()
        computed, self._processor = processor - self._processor, processor
        if wants_to_run or computed > 0:
            self._seconds += min(max(computed, LEAST_SHARE * elapsed), elapsed)
        else:
            self._seconds += elapsed
        return self._seconds

    def _read(self) -> Tuple[float, bool]:
        """The processor time of all processes of the tree, and whether one of them could run."""
        processor, wants_to_run, new = 0.0, False, [self._root]
        while new:
            pid = new.pop()
            processor += _status("/proc/%d/stat" % pid).processor
            for thread in _numbers("/proc/%d/task" % pid):
                folder = "/proc/%d/task/%d/" % (pid, thread)
                wants_to_run = wants_to_run or _status(folder + "stat").wants_to_run
                new += _children(folder + "children")
        return processor, wants_to_run


def _children(path: str) -> List[int]:
    """The processes that a thread has started. A kernel without this file makes the clock one of elapsed time."""
    try:
        with open(path) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _numbers(folder: str) -> List[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]
    except OSError:  # the process has ended
        return []


def _status(path: str) -> Status:
    """Of "pid (name) state ppid …"; the 14th to 17th fields are ticks. A process that has ended has used no time."""
    try:
        with open(path, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return Status(fields[0] in (b"R", b"D"), sum(map(int, fields[11:15])) / _TICKS)
    except (OSError, IndexError, ValueError):
        return Status(False, 0.0)
