"""The runtime library of the virtual GPU as Python sees it: copies between host and device memory in the order of a
stream, and the functions that Assay's libcudart has beyond CUDA's own.

The library is already in the process (LD_PRELOAD), because torch has to find it before its own; `library()` finds it
there. Every function raises RuntimeError with CUDA's words when a call fails.
"""

import ctypes
import functools
from typing import Optional

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, ANY_DIRECTION = 1, 2, 3, 4

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_PROTOTYPES = {
    "cudaMemcpyAsync": [_POINTER, _POINTER, _SIZE, _INT, _POINTER],
    "cudaMemcpy2DAsync": [_POINTER, _SIZE, _POINTER, _SIZE, _SIZE, _SIZE, _INT, _POINTER],
    "assay_fetch": [_POINTER, _SIZE, _POINTER, _SIZE, _SIZE, _SIZE, _POINTER],
    "cudaMemsetAsync": [_POINTER, _INT, _SIZE, _POINTER],
    "cudaStreamSynchronize": [_POINTER],
    "cudaStreamIsCapturing": [_POINTER, _POINTER],
    "cudaThreadExchangeStreamCaptureMode": [_POINTER],
    "cudaLaunchHostFunc": [_POINTER, _POINTER, _POINTER],
}


class Unsupported(NotImplementedError):
    """The virtual GPU cannot do this; the program may be right."""


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The runtime library of this process."""
    loaded = ctypes.CDLL(None)
    for name, arguments in _PROTOTYPES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, _INT
    loaded.cudaGetErrorString.argtypes, loaded.cudaGetErrorString.restype = [_INT], ctypes.c_char_p
    loaded.assay_frees_wait.argtypes, loaded.assay_frees_wait.restype = [_INT], None
    loaded.assay_label.argtypes, loaded.assay_label.restype = [_POINTER, ctypes.c_char_p], None
    return loaded


def check(status: int) -> None:
    """Raises what torch raises for this status of a CUDA call."""
    if status != 0:
        raise RuntimeError("CUDA error: " + library().cudaGetErrorString(status).decode())


def copy(to: int, start: int, size: int, direction: int, stream: int) -> None:
    """Copies `size` bytes from `start`. Copies into pageable host memory have ended when this returns."""
    check(library().cudaMemcpyAsync(to, start, size, direction, stream))


def store(to: int, to_pitch: int, start: int, start_pitch: int, width: int, height: int, stream: int) -> None:
    """Copies `height` rows of `width` bytes from host to device; they lie `to_pitch` and `start_pitch` bytes apart."""
    check(library().cudaMemcpy2DAsync(to, to_pitch, start, start_pitch, width, height, HOST_TO_DEVICE, stream))


def fetch(to: int, to_pitch: int, start: int, start_pitch: int, width: int, height: int, stream: int) -> None:
    """Copies rows from device to host without the program having waited: a real GPU would not have copied at all."""
    check(library().assay_fetch(to, to_pitch, start, start_pitch, width, height, stream))


def clear(pointer: int, size: int, stream: int) -> None:
    """Fills device memory with zeros."""
    check(library().cudaMemsetAsync(pointer, 0, size, stream))


def synchronize(stream: int) -> None:
    """Waits for the work of a stream."""
    check(library().cudaStreamSynchronize(stream))


def is_capturing(stream: int) -> bool:
    """Whether work on this stream goes into a graph instead of being done."""
    state = _INT(0)
    check(library().cudaStreamIsCapturing(stream, ctypes.byref(state)))
    return state.value != 0


def exchange_capture_mode(mode: ctypes.c_int) -> None:
    """Sets what this thread may do while a stream is captured; `mode` becomes what it was before."""
    check(library().cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode)))


def label(pointer: int, name: Optional[str]) -> None:
    """Names the allocation that starts at `pointer` in findings."""
    if name:
        library().assay_label(pointer, name.encode())
