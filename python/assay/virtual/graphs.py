"""ATen operators in CUDA graphs.

While a stream is captured, an operator does not run. It leaves three things in the graph: copies of its arguments to host
memory, a call of the host that computes, and copies of the results to the device. Each replay then computes anew. To
learn the shapes of its results the operator runs once on zeros.

A graph uses the memory of its capture for as long as it lives, so everything that is allocated meanwhile is kept with it.
The calls run on a thread of the runtime, which waits for Python's global lock: a replay returns when its work is done,
because a thread that holds that lock must not wait for the graph.
"""

import ctypes
import functools
import itertools
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from . import runtime

NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"

_HostCall = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_RELAXED = 2  # cudaStreamCaptureModeRelaxed: allocations are allowed

_numbers = itertools.count(1)
_calls: Dict[int, Callable[[], None]] = {}  # of all graphs, by number
_current: List["Recording"] = []  # the capture under way


class Recording:
    """What a graph needs of ours: calls of the host, and memory."""

    def __init__(self) -> None:
        self.kept: List[Any] = []
        self.calls: List[int] = []
        self.error: Optional[BaseException] = None
        self._empties: Optional[torch.library.Library] = None
        self._mode = ctypes.c_int(_RELAXED)

    def begin(self) -> None:
        """The capture has begun, on this thread."""
        _current.append(self)
        runtime.exchange_capture_mode(self._mode)
        self._empties = torch.library.Library("aten", "IMPL")
        for name in ("empty.memory_format", "empty_strided"):
            native = _native_allocation(name)
            self._empties.impl(name, functools.partial(self._allocate, native), "CUDA", allow_override=True)

    def end(self) -> None:
        """The capture has ended, well or not."""
        if self._empties is not None:
            self._empties._destroy()
            self._empties = None
            runtime.exchange_capture_mode(self._mode)
            _current.remove(self)

    def add(self, compute: Callable[[], Any], results: Any, stream: int) -> None:
        """Puts a computation into the graph; what it returns goes into the tensors of `results`."""

        def call() -> None:
            for kept, new in zip(_tensors(results), _tensors(compute())):
                if kept is not new:
                    kept.copy_(new)

        number = next(_numbers)
        _calls[number] = functools.partial(self._guarded, call)
        self.calls.append(number)
        runtime.check(runtime.library().cudaLaunchHostFunc(stream, _host_call, number))

    def finish_replay(self, stream: int) -> None:
        """Waits for a replay, and raises what a computation in it has raised."""
        if not self.calls:
            return
        runtime.synchronize(stream)
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def forget(self) -> None:
        """The graph is gone."""
        for number in self.calls:
            _calls.pop(number, None)
        self.calls, self.kept = [], []

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self.error = self.error or error

    def _allocate(self, native: Callable, *args: Any, **kwargs: Any) -> torch.Tensor:
        mode = ctypes.c_int(_RELAXED)  # the backward pass allocates on a thread of its own
        runtime.exchange_capture_mode(mode)
        try:
            tensor = native(*args, **kwargs)
        finally:
            runtime.exchange_capture_mode(mode)
        self.kept.append(tensor)
        return tensor


def install() -> None:
    """Makes torch's graphs record operators. Calling it again does nothing."""
    graph = torch.cuda.CUDAGraph
    if hasattr(graph, "_assay_begin"):
        return
    graph._assay_begin, graph._assay_end = graph.capture_begin, graph.capture_end
    graph._assay_replay, graph._assay_reset = graph.replay, graph.reset
    graph.capture_begin, graph.capture_end, graph.replay, graph.reset = _begin, _end, _replay, _reset


def recording(stream: int) -> Optional[Recording]:
    """The capture that work on this stream goes into; None: it is done at once."""
    return _current[-1] if _current and runtime.is_capturing(stream) else None


def _begin(graph: Any, *args: Any, **kwargs: Any) -> None:
    graph._assay_begin(*args, **kwargs)
    graph._assay_recording = Recording()
    graph._assay_recording.begin()


def _end(graph: Any) -> None:
    graph._assay_recording.end()
    graph._assay_end()


def _replay(graph: Any) -> None:
    graph._assay_replay()
    graph._assay_recording.finish_replay(torch.cuda.current_stream().cuda_stream)


def _reset(graph: Any) -> None:
    graph._assay_reset()
    graph._assay_recording.forget()


@_HostCall
def _host_call(number: Any) -> None:
    _calls[number]()


@functools.lru_cache(maxsize=None)
def _native_allocation(name: str) -> Callable:
    kernel = torch.library.get_kernel("aten::" + name, "CUDA")
    return functools.partial(kernel.call_boxed, torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
