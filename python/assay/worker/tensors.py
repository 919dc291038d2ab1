"""Tensors over the worker's buffers, and what a function returned: verified, and copied to where it belongs.

Where the interpreter has no torch, arguments are `Buffer` objects: an address, a shape, a dtype. A function that
launches its kernels through ctypes needs no more.
"""
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

try:
    import torch
except ImportError:
    torch = None

_TORCH_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "u32": "uint32",
    "i64": "int64", "u64": "uint64", "bool": "bool"}
_NUMBERS = {"f64": "<d", "f32": "<f", "f16": "<e", "i8": "<b", "u8": "<B", "i16": "<h", "i32": "<i", "u32": "<I",
            "i64": "<q", "u64": "<Q", "bool": "<?"}

Description = Dict[str, Any]  # a tensor or a number as PythonEntry::call (src/subject/worker/python.cpp) writes it


class Misfit(Exception):
    """What a function returned is not the output that it should be."""

    def __init__(self, output: str, text: str) -> None:
        super().__init__(text)
        self.output = output


class Buffer(NamedTuple):
    """A tensor for functions that do without torch."""
    address: int
    shape: Tuple[int, ...]
    dtype: str
    stream: int

    def data_ptr(self) -> int:
        return self.address


def number(bits: int, dtype: str) -> Any:
    """The Python number that these stored bits are."""
    raw = struct.pack("<Q", bits)
    if dtype == "bf16":
        return struct.unpack("<f", b"\0\0" + raw[:2])[0]
    if dtype in ("e4m3", "e5m2"):
        return torch.tensor([raw[0]], dtype=torch.uint8).view(_dtype(dtype)).to(torch.float64).item()
    size = struct.calcsize(_NUMBERS[dtype])
    return struct.unpack(_NUMBERS[dtype], raw[:size])[0]


def argument(given: Description, stream: int) -> Any:
    """What the function gets for an argument."""
    if "bits" in given:
        return number(given["bits"], given["dtype"])
    if torch is None:
        return Buffer(given["address"], tuple(given["extents"]), given["dtype"], stream)
    if given["bytes"] == 0:
        return torch.empty(given["extents"], dtype=_dtype(given["dtype"]), device="cuda")
    storage = torch._C._construct_storage_from_data_pointer(
        given["address"], torch.device("cuda", 0), given["bytes"])
    extents = given["extents"]
    return torch.empty(0, dtype=_dtype(given["dtype"]), device="cuda").set_(storage, 0, extents, _strides(extents))


def returned(result: Any, outputs: Sequence[Description], function: str) -> List[Any]:
    """The returned tensors in the order of the outputs; raises Misfit where they are not what those are."""
    first = outputs[0]["name"]
    if isinstance(result, dict):
        missing = [output["name"] for output in outputs if output["name"] not in result]
        if missing:
            raise Misfit(missing[0], "%s returned a dict without `%s`" % (function, missing[0]))
        result = [result[output["name"]] for output in outputs]
    if not isinstance(result, (tuple, list)):
        result = [result]
    if len(result) != len(outputs):
        raise Misfit(first, "%s returned %s, but the contract has %s"
                     % (function, _counted(len(result)), _counted(len(outputs))))
    for tensor, output in zip(result, outputs):
        problem = _misfit(tensor, output)
        if problem:
            raise Misfit(output["name"], "%s returned %s for `%s`%s" % (function, problem[0], output["name"], problem[1]))
    return [tensor.detach() for tensor in result]


def _misfit(tensor: Any, output: Description) -> Optional[Tuple[str, str]]:
    # A class derived from Tensor may compute when it is looked at, and what it likes.
    if torch is None or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return "a value of type %s" % type(tensor).__name__, ", which is a tensor"
    if tensor.layout != torch.strided:
        return "a tensor of layout %s" % tensor.layout, ""
    if not tensor.is_cuda:
        return "a tensor on the %s" % ("CPU" if tensor.device.type == "cpu" else tensor.device), ""
    if list(tensor.shape) != list(output["extents"]):
        return "the shape %s" % list(tensor.shape), ", which has %s" % output["extents"]
    if tensor.dtype != _dtype(output["dtype"]):
        return str(tensor.dtype), ", which is %s" % _dtype(output["dtype"])
    return None


def _counted(count: int) -> str:
    return "%d output%s" % (count, "" if count == 1 else "s")


def _dtype(name: str) -> Any:
    return getattr(torch, _TORCH_NAMES[name])


def _strides(extents: Sequence[int]) -> List[int]:
    strides, step = [], 1
    for extent in reversed(extents):
        strides.append(step)
        step *= max(1, extent)
    return strides[::-1]
