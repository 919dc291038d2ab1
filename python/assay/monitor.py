"""Monitors a kernel in a Python program in production (docs/monitor.md).

    from assay.monitor import Watch

    watch = Watch("softmax.toml")

    @watch                                   # arguments in the order of the contract's `args`
    def softmax(x, y, rows, columns): ...

Sampled calls are copied on torch's current stream and judged by assayd, in another process. Nothing here waits:
samples that cannot be handed over are dropped and counted (`watch.counts()`). The function must take its outputs as
arguments, and every dim that is not a constant.
"""

import ctypes
import functools
import os
import pathlib
from typing import Any, Callable, Dict, Optional, Sequence, Union

from assay import paths

OBSERVE, SHADOW, REFERENCE = 0, 1, 2
_INTEGERS = {
    "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "bool": ctypes.c_bool, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
}  # fmt: skip
_FLOATS = {"f32": ctypes.c_float, "f64": ctypes.c_double}


class MonitorError(Exception):
    """A kernel that cannot be watched."""


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("calls", "samples", "dropped", "overhead_ns")]


def _load_library() -> ctypes.CDLL:
    try:
        beside = paths.library("libassay_monitor.so")
    except FileNotFoundError:
        beside = "libassay_monitor.so"
    name = os.environ.get("ASSAY_MONITOR_LIBRARY") or beside
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise MonitorError("libassay_monitor.so was not found: %s" % error) from None
    library.assay_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    library.assay_error.restype = ctypes.c_char_p
    library.assay_argument.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.assay_argument.restype = ctypes.c_char_p
    library.assay_before.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    library.assay_before.restype = ctypes.c_uint64
    library.assay_after.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
    library.assay_after.restype = None
    library.assay_count.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Counts)]
    library.assay_count.restype = None
    library.assay_flush.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.assay_mode.argtypes = [ctypes.c_void_p, ctypes.c_int]
    for name in ("assay_graph_bind", "assay_graph_close"):
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        getattr(library, name).restype = None
    library.assay_graph_reserve.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.assay_graph_begin.argtypes = [ctypes.c_void_p]
    library.assay_graph_end.argtypes = [ctypes.c_void_p]
    library.assay_graph_end.restype = None
    library.assay_graph_launch_all.argtypes = [ctypes.c_void_p, ctypes.c_int] + 3 * [ctypes.c_void_p]
    library.assay_close.argtypes = [ctypes.c_void_p]
    library.assay_close.restype = None
    return library


def _current_stream() -> int:
    import torch

    return int(torch.cuda.current_stream().cuda_stream)


class Watch:
    """A monitored kernel. `stream` returns the stream of a call; by default it is torch's current one."""

    def __init__(
        self,
        contract: Union[str, pathlib.Path],
        certificate: Optional[Union[str, pathlib.Path]] = None,
        stream: Callable[[], int] = _current_stream,
    ) -> None:
        self._library = _load_library()
        self._watch = ctypes.c_void_p()
        self._stream = stream
        path = os.fsencode(contract)
        if self._library.assay_open(path, os.fsencode(certificate) if certificate else None, ctypes.byref(self._watch)):
            raise MonitorError(self._library.assay_error().decode(errors="replace"))
        self._types = []
        while True:
            kind = self._library.assay_argument(self._watch, len(self._types))
            if kind is None:
                break
            self._types.append(kind.decode())

    def _arguments(self, args: Sequence[Any], stream: int) -> ctypes.Array:
        if len(args) != len(self._types):
            raise TypeError("the contract has %d `args`, but the call has %d" % (len(self._types), len(args)))
        values = []
        for kind, value in zip(self._types, args):
            if kind == "pointer":
                address = value if value is None or isinstance(value, int) else value.data_ptr()
                values.append(ctypes.c_void_p(address))
            elif kind == "stream":
                values.append(ctypes.c_void_p(stream))
            elif kind in _INTEGERS:
                values.append(_INTEGERS[kind](value))
            elif kind in _FLOATS:
                values.append(_FLOATS[kind](value))
            else:
                raise TypeError("scalars of type %s cannot be passed from Python" % kind)
        array = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        array.values = values  # as long as the array lives
        return array

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls the function, watched."""
        stream = self._stream()
        array = self._arguments(args, stream)
        ticket = self._library.assay_before(self._watch, array, stream)
        try:
            return function(*args)
        finally:
            self._library.assay_after(self._watch, ticket, array, stream)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*args: Any) -> Any:
            return self.call(function, *args)

        return watched

    def begin_graph(self, calls: int = 1) -> bool:
        """Before the second capture of a CUDA graph that makes `calls` calls; False: no call was made before, or no memory."""
        if self._library.assay_graph_reserve(self._watch, calls):
            raise ValueError("calls of a graph: 1 to 1024, not %d" % calls)
        return self._library.assay_graph_begin(self._watch) == 0

    def end_graph(self, with_copies: Optional[int] = None) -> None:
        """After it; `with_copies`: its cudaGraphExec_t, where more graphs follow before it is launched."""
        self._library.assay_graph_end(self._watch)
        if with_copies is not None:
            self._library.assay_graph_bind(self._watch, with_copies)

    def counts(self) -> Dict[str, int]:
        """Calls, samples, samples that were dropped, and the time that sampled calls spent here."""
        counts = _Counts()
        self._library.assay_count(self._watch, ctypes.byref(counts))
        return {name: getattr(counts, name) for name, _ in _Counts._fields_}

    def flush(self, seconds: float) -> bool:
        """Waits until everything sampled so far is judged."""
        return self._library.assay_flush(self._watch, int(1000 * seconds)) == 0

    def close(self) -> None:
        """Hands over what was sampled, and ends."""
        self._library.assay_close(self._watch)
        self._watch = ctypes.c_void_p()


def launch_graph(watches: Sequence[Watch], plain: int, with_copies: int, stream: int) -> None:
    """Launches a CUDA graph that holds calls of these watches: `with_copies` when it is to be sampled, else `plain`."""
    handles = (ctypes.c_void_p * len(watches))(*[watch._watch for watch in watches])
    status = watches[0]._library.assay_graph_launch_all(handles, len(watches), plain, with_copies, stream)
    if status != 0:
        raise RuntimeError("cudaGraphLaunch failed with %d" % status)
