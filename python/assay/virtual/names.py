"""Names for tensors in findings: the variable that holds a tensor when a kernel uses it.

The runtime calls back before a launch with the allocations among its arguments that have no name yet. Then the local
variables of the Python functions that led to the launch are searched, innermost first, for tensors in that memory: a
variable that holds the whole of it is the best name, then one that holds a view. Lists, tuples, dictionaries and modules
are looked into one level deep. Each allocation is asked for once, so a launch in a loop costs nothing more.
"""

import ctypes
import os
import sys
from types import FrameType
from typing import Any, Dict, Iterator, List, Tuple

import torch

from . import runtime

# Names of what is searched, at most; a module or list may hold thousands of tensors.
MOST_ITEMS = 200
UNKNOWN = "tensor"

_Listener = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
_listener: List[Any] = []  # kept: the runtime has its address


def install() -> None:
    """Asks the runtime to call back before launches. Calling it again does nothing."""
    library = runtime.library()
    if _listener or not hasattr(library, "assay_on_launch"):
        return
    library.assay_on_launch.argtypes, library.assay_on_launch.restype = [_Listener], None
    _listener.append(_Listener(_name_memory))
    library.assay_on_launch(_listener[0])


def _name_memory(bases: Any, count: int) -> None:
    try:
        wanted = {bases[at] for at in range(count)}
        names = {**_arguments_of_triton(), **names_of(wanted, sys._getframe(1))}
        for base in wanted:
            runtime.label(base, names.get(base, UNKNOWN))
    except Exception as error:  # a name is not worth an error in the program
        sys.stderr.write(f"assay: no names for tensors: {error}\n")


def _arguments_of_triton() -> Dict[int, str]:
    """The arguments of the Triton kernel that is launched: names for tensors that no variable holds."""
    triton = sys.modules.get(f"{__package__}.triton")
    return triton.argument_names() if triton else {}


def names_of(bases: "set[int]", frame: "FrameType | None") -> Dict[int, str]:
    """The variables that hold memory at these addresses, as seen from a frame."""
    names: Dict[int, str] = {}
    views: Dict[int, str] = {}
    while frame is not None and len(names) < len(bases):
        if not _is_library(frame.f_code.co_filename):
            for name, value in list(frame.f_locals.items()):
                for path, tensor in _tensors(name, value):
                    base, is_whole = _memory_of(tensor)
                    if base in bases:
                        (names if is_whole else views).setdefault(base, path)
        frame = frame.f_back
    return {**views, **names}


def _memory_of(tensor: torch.Tensor) -> Tuple[int, bool]:
    """Where the storage of a tensor starts, and whether the tensor is all of it."""
    try:
        storage = tensor.untyped_storage()
        whole = tensor.storage_offset() == 0 and tensor.numel() * tensor.element_size() == storage.nbytes()
        return storage.data_ptr(), whole
    except (RuntimeError, NotImplementedError):  # one without memory: sparse, fake, functional
        return 0, False


def _tensors(name: str, value: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """The CUDA tensors in a variable, each with the expression for it."""
    if isinstance(value, torch.Tensor):
        if value.is_cuda:
            yield name, value
            if value.is_leaf and value.grad is not None:
                yield name + ".grad", value.grad
    elif isinstance(value, torch.nn.Module):
        named = list(value.named_parameters()) + list(value.named_buffers())
        for path, tensor in named[:MOST_ITEMS]:
            if tensor.is_cuda:
                yield f"{name}.{path}", tensor
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value[:MOST_ITEMS]):
            if isinstance(item, torch.Tensor) and item.is_cuda:
                yield f"{name}[{at}]", item
    elif isinstance(value, dict) and len(value) <= MOST_ITEMS:
        for key, item in list(value.items()):
            if isinstance(item, torch.Tensor) and item.is_cuda:
                yield f"{name}[{key!r}]", item


_LIBRARIES = tuple(
    os.path.dirname(path) + os.sep for path in (torch.__file__, os.path.dirname(os.path.abspath(__file__)))
)


def _is_library(file: str) -> bool:
    triton = getattr(sys.modules.get("triton"), "__file__", None)
    return (
        file.startswith(_LIBRARIES)
        or file.startswith("<frozen")
        or (triton is not None and file.startswith(os.path.dirname(triton) + os.sep))
    )
