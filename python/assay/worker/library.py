"""The worker's C++ part (libassay-worker.so), by ctypes. Both sides exchange JSON."""
import ctypes
import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

# assay_host_finding of src/protocol/hooks.h.
FORBIDDEN_CALL, ENVIRONMENT_PROBE, ALIASED_OUTPUT, CALLS_REFERENCE, TAMPERING = 0, 1, 2, 3, 4

_FRAME = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int)
_LONGEST_NAME = 300  # bytes of a kernel's name
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)

Answer = Dict[str, Any]  # empty, or the fields of PythonFailure (src/protocol/messages.h)


class _Calls(ctypes.Structure):
    _fields_ = [("load", _FUNCTION), ("call", _FUNCTION)]


class WorkLeft(NamedTuple):
    kernel: str  # "": a copy or a fill
    frames: List[Tuple[str, int]]  # file and line of the functions that launched it, innermost first


class Library:
    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.assay_worker_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
        self._library.assay_worker_work_left.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, _FRAME]
        self._library.assay_worker_report.argtypes = [
            ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]

    def run(self, load: Callable[[Answer], Answer], call: Callable[[Answer], Answer]) -> int:
        """Serves the command until it has no more requests; returns the exit status."""
        calls = _Calls(_FUNCTION(_answering(load)), _FUNCTION(_answering(call)))
        return self._library.assay_worker_run(ctypes.byref(calls))

    def configure(self, settings: str) -> None:
        """Other settings of the runtime library than those it found in the environment."""
        self._library.assay_worker_configure(settings.encode())

    def copy(self, to: int, source: int, bytes: int, stream: int) -> None:
        """Queues a copy on the device."""
        status = self._library.assay_worker_copy(to, source, bytes, stream)
        if status != 0:
            raise RuntimeError("the copy of an output failed with CUDA error %d" % status)

    def watch_order(self) -> None:
        """Notes from now on which work on the device waits for which."""
        self._library.assay_worker_watch_order()

    def work_left(self, stream: int) -> Optional[WorkLeft]:
        """Work since then on a stream of the function's own that this one does not wait for."""
        frames: List[Tuple[str, int]] = []
        note = _FRAME(lambda file, line: frames.append((os.fsdecode(file), line)))
        kernel = ctypes.create_string_buffer(_LONGEST_NAME)
        if not self._library.assay_worker_work_left(stream, kernel, len(kernel), note):
            return None
        return WorkLeft(kernel.value.decode(errors="replace"), frames)

    def building(self, begins: bool) -> None:
        """Time until building(False) is spent on compiling, and not the call's."""
        self._library.assay_worker_building(int(begins))

    def report(self, kind: int, text: str, file: str = "", line: int = 0, error: bool = True) -> None:
        """A finding about the subject's code."""
        self._library.assay_worker_report(kind, int(error), text.encode(), file.encode(), line)


def _answering(function: Callable[[Answer], Answer]) -> Callable[[bytes, int, int], int]:
    def answer(question: bytes, to: int, capacity: int) -> int:
        text = json.dumps(function(json.loads(question))).encode() + b"\0"
        if len(text) > capacity:
            return 1
        ctypes.memmove(to, text, len(text))
        return 0

    return answer
