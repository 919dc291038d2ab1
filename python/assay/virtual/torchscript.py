"""TorchScript on the virtual GPU: models that are traced, scripted, frozen and optimised run operator by operator.

Two things of torch stand in the way. Its fusers compile machine code for the GPU at run time, so they are kept from
doing that. And while a model is traced, torch records what Python asks of a tensor (its size, a new tensor of that
size) as steps of the model. The tracer has recorded an operator by the time its kernel here runs; what the kernel
does must not be recorded, too.
"""

import functools
from typing import Any, Callable

import torch

_TRACER = torch._C._dispatch_key_parse("Tracer")


def install() -> None:
    """Keeps torch's fusers from compiling for the GPU, also if the program asks for one. May be called again."""
    if getattr(torch._C._jit_override_can_fuse_on_gpu, "__name__", "") == _ignored.__name__:
        return
    torch._C._jit_override_can_fuse_on_gpu(False)
    torch._C._jit_override_can_fuse_on_gpu = _ignored


def not_traced(kernel: Callable) -> Callable:
    """The same kernel, whose own steps are no part of a model that is being traced."""

    @functools.wraps(kernel)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        state = torch._C._get_tracing_state()
        if state is None:
            return kernel(*args, **kwargs)
        # Around some kernels the tracer's key is excluded; its state may be set only where it is not.
        with torch._C._SetExcludeDispatchKeyGuard(_TRACER, False):
            torch._C._set_tracing_state(None)
            try:
                return kernel(*args, **kwargs)
            finally:
                torch._C._set_tracing_state(state)

    return wrapped


def _ignored(enabled: bool) -> None:
    """In the place of the function that lets torch fuse for the GPU."""
