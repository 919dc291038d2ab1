"""Loading files as modules, seeds, and the values that go into and come out of a benchmark's functions."""
from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch.overrides import TorchFunctionMode


def load_file(path: Path, name: str, text: Optional[str] = None) -> ModuleType:
    """The file as a module; `text` instead of its content, line for line the same but for some integers.

    The module has a real file, so that `inspect.getsource` works: Triton and torch.jit need it.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if text is None:
        spec.loader.exec_module(module)
    else:
        exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def set_seed(seed: int) -> None:
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)


@contextlib.contextmanager
def _no_function_modes() -> Iterator[None]:
    """Takes the caller's function modes off the stack and puts them back."""
    modes = []
    while torch._C._len_torch_function_stack():
        modes.append(torch._C._pop_torch_function_stack())
    try:
        yield
    finally:
        for mode in reversed(modes):
            torch._C._push_on_torch_function_stack(mode)


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """Random parameters and inputs are those of float32, whatever mode the caller evaluates in."""
    from torch.utils._python_dispatch import _disable_current_modes

    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with _disable_current_modes(), _no_function_modes(), CudaAs("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


class CudaAs(TorchFunctionMode):
    """Code that asks for the device `cuda` gets another one: for references that hard-code it, where there is
    none.
    """

    def __init__(self, device: str):
        super().__init__()
        self._device = torch.device(device)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return args[0].to(self._device)
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = self._device
        if function is torch.Tensor.to:
            args = tuple(self._device if _is_cuda(value) else value for value in args)
        return function(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.split(":")[0] == "cuda"


def tensors_in(value: Any) -> List[torch.Tensor]:
    """The tensors of a nested result, in order. Anything else in it is left out."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def template(value: Any, names: Iterator[str], found: Dict[str, torch.Tensor]) -> Any:
    """`value` with every tensor replaced by ("tensor", NAME); the tensors go to `found`."""
    if isinstance(value, torch.Tensor):
        name = next(names)
        found[name] = value
        return ("tensor", name)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [template(item, names, found) for item in value])
    return ("value", value)


def filled(pattern: Any, tensors: Dict[str, torch.Tensor]) -> Any:
    """The value that `pattern` is the template of, with these tensors."""
    kind, content = pattern
    if kind == "tensor":
        return tensors[content]
    if kind == "value":
        return content
    items = [filled(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def in_order(result: Any, names: Sequence[str], dtypes: Dict[str, torch.dtype],
             device: Any) -> Tuple[torch.Tensor, ...]:
    """The outputs in the order of their names, from a tensor, a number, a sequence or a dict."""
    if isinstance(result, dict):
        values = [result[name] for name in names]
    elif isinstance(result, (list, tuple)):
        values = list(result)
    else:
        values = [result]
    if len(values) != len(names):
        raise ValueError(f"{len(names)} outputs are expected ({', '.join(names)}), {len(values)} were "
                         "returned")
    return tuple(value if isinstance(value, torch.Tensor)
                 else torch.tensor(value, dtype=dtypes[name], device=device)
                 for name, value in zip(names, values))
