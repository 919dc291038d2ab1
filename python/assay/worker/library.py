"""The worker's C++ part (libassay-worker.so), by ctypes. Both sides exchange JSON."""
import ctypes
import json
from typing import Any, Callable, Dict

# assay_host_finding of src/protocol/hooks.h.
FORBIDDEN_CALL, ENVIRONMENT_PROBE, ALIASED_OUTPUT, CALLS_REFERENCE, TAMPERING = 0, 1, 2, 3, 4

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)

Answer = Dict[str, Any]  # empty, or the fields of PythonFailure (src/protocol/messages.h)


class _Calls(ctypes.Structure):
    _fields_ = [("load", _FUNCTION), ("call", _FUNCTION)]


class Library:
    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.assay_worker_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]
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
