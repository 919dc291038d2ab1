"""Runs the program `assay` from Python and reads the report that it writes.

Several calls may run at a time, from threads or from processes: each has its own folder and its own
processes. A program that does not end in time is asked to stop, which makes it report what it has found so
far; only after that it is killed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from assay import paths
from assay.report import Report
from assay.tree_clock import TreeClock

SECONDS_BETWEEN_LOOKS = 1.0  # at the clock of a program that runs under a limit of own time
SECONDS_TO_STOP = 10.0  # for a program that was asked to stop: it writes its report and ends its workers

# What `assay run` sets for a Python process on the virtual GPU. The program that is started here is not on
# it.
_OF_THE_VIRTUAL_GPU = (
    "ASSAY_SETTINGS",
    "ASSAY_PRELOAD",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TRITON_LIBCUDA_PATH",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
)


class AssayError(RuntimeError):
    """A check could not be started: the contract, the problem or a call is wrong. The text says what to
    change."""


class Ended(NamedTuple):
    status: int  # of the program; negative: the signal that ended it
    errors: str
    stopped: bool  # it did not end in time
    report: Optional[Report]  # None: it wrote none


def _without(value: str, separators: str, is_ours) -> str:
    for separator in separators[1:]:
        value = value.replace(separator, separators[0])
    return separators[0].join(entry for entry in value.split(separators[0]) if entry and not is_ours(entry))


def environment() -> Dict[str, str]:
    """The environment for the program: this interpreter, and nothing of a virtual GPU that this process may
    be on."""
    result = dict(os.environ, ASSAY_PYTHON=sys.executable)
    if "ASSAY_SETTINGS" in result:
        libraries = os.path.dirname(paths.library("libcudart.so.13"))
        site = os.path.join(paths.package_folder(), "assay", "site")
        for name in _OF_THE_VIRTUAL_GPU:
            result.pop(name, None)
        for name, separators, ours in (
            ("LD_PRELOAD", ": ", libraries),
            ("LD_LIBRARY_PATH", ":", libraries),
            ("PYTHONPATH", ":", site),
        ):
            rest = _without(result.get(name, ""), separators, lambda entry: entry.startswith(ours))
            result.pop(name, None)
            if rest:
                result[name] = rest
    return result


def run(
    arguments: List[str],
    timeout: Optional[float] = None,
    folder: Optional[str] = None,
    own_time: Optional[float] = None,
) -> Ended:
    """Runs `assay ARGUMENTS --json FILE` in a folder and returns how it ended, with its report.

    `timeout` are seconds that pass, `own_time` seconds of the clock of the program and of all that it starts: what
    else runs on the machine does not use them up.
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as own_folder:
        path = os.path.join(own_folder, "report.json")
        process = subprocess.Popen(
            [paths.program()] + arguments + ["--json", path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=folder,
            start_new_session=True,
        )
        output, errors, stopped = _communicate(process, timeout, own_time)
        text = output.decode("utf-8", "replace")
        return Ended(process.returncode, errors.decode("utf-8", "replace"), stopped, _read_report(path, text))


def _communicate(
    process: subprocess.Popen, timeout: Optional[float], own_time: Optional[float]
) -> Tuple[bytes, bytes, bool]:
    """What it printed, and whether it had to be stopped."""
    try:
        return _wait(process, timeout, own_time) + (False,)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    except BaseException:  # Ctrl-C, say: nothing is left behind
        _end_group(process)
        raise
    try:
        return process.communicate(timeout=SECONDS_TO_STOP) + (True,)
    except subprocess.TimeoutExpired:
        _end_group(process)
    try:
        return process.communicate(timeout=SECONDS_TO_STOP) + (True,)
    except subprocess.TimeoutExpired:  # a process of the answer that left the group still holds the pipes
        return b"", b"", True


def _wait(
    process: subprocess.Popen, timeout: Optional[float], own_time: Optional[float]
) -> Tuple[bytes, bytes]:
    """What it printed. Raises TimeoutExpired if it does not end within one of the limits."""
    if own_time is None:
        return process.communicate(timeout=timeout)
    clock, began = TreeClock(process.pid), time.monotonic()
    while True:
        left = own_time - clock.seconds()
        if timeout is not None:
            left = min(left, timeout - (time.monotonic() - began))
        try:
            return process.communicate(timeout=max(0.0, min(left, SECONDS_BETWEEN_LOOKS)))
        except subprocess.TimeoutExpired:
            if left <= 0:
                raise


def _end_group(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _read_report(path: str, text: str) -> Optional[Report]:
    try:
        with open(path, encoding="utf-8") as file:
            return Report(json.load(file), text)
    except (OSError, ValueError):
        return None
