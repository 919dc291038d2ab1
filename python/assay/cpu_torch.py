"""torch for the processes that evaluate a problem on the CPU: the description of a problem and the server of its reference.

    from assay import cpu_torch  # before the first import of torch

It changes what torch costs, not what it computes:

* Freed memory is kept for the next tensor. By default every tensor above 128 KiB is mapped and unmapped, and the
  page faults take as long as the arithmetic.
* torch._dynamo is not imported just to be switched off. Operators on the meta device are wrapped so that the
  compiler leaves them out, and the wrapper imports the compiler first, which takes 1.4 s.
"""
import ctypes
import functools
import importlib.machinery
import os
import sys
import types
from typing import Any, Callable, Optional

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # options of mallopt (malloc.h)
_LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes: what glibc accepts on 64-bit systems
_COMPILE = "torch._compile"


def prepare() -> None:
    """What this module is imported for; does nothing where torch is loaded already."""
    if "torch" in sys.modules:
        return
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, 1 << 30)
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds torch._compile as Python would, and changes it after the import."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != _COMPILE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_replace(module: types.ModuleType) -> None:
                run(module)
                if hasattr(module, "_disable_dynamo"):
                    module._disable_dynamo = _without_import(module._disable_dynamo)

            spec.loader.exec_module = run_and_replace
        return spec


def _without_import(disable: Callable[..., Any]) -> Callable[..., Any]:
    """torch._compile._disable_dynamo, whose functions call what they wrap as long as nothing has imported the compiler."""

    @functools.wraps(disable)
    def disable_if_there(function: Optional[Callable[..., Any]] = None, recursive: bool = True) -> Any:
        if function is None:
            return functools.partial(disable_if_there, recursive=recursive)
        disabled = disable(function, recursive)

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            return (disabled if "torch._dynamo" in sys.modules else function)(*args, **named)

        return call

    return disable_if_there


prepare()
