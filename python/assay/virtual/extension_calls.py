"""What an extension built with the light header asks of Python: torch's tensors, operators and streams.

The C++ side (include/assay/light) calls the functions of `Callbacks` by name. Tensors pass as they are, so
that allocation, ownership, views and errors are torch's own; operators are called by schema name and
overload, and run wherever torch runs them (on the virtual GPU: see aten.py).
"""

import ctypes
import operator as python_operator
from typing import Any, Callable, Dict, Tuple

import torch

from assay.virtual.runtime import Unsupported

# torch's numbers of the element types (c10/core/ScalarType.h); one that the installed torch lacks is left out.
DTYPE_NUMBERS = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7,
    "complex64": 9, "complex128": 10, "bool": 11, "bfloat16": 15, "float8_e5m2": 23, "float8_e4m3fn": 24,
    "uint16": 27, "uint32": 28, "uint64": 29, "float8_e8m0fnu": 44,
}  # fmt: skip
NUMBER_OF_DTYPE = {
    getattr(torch, name): number for name, number in DTYPE_NUMBERS.items() if hasattr(torch, name)
}
DTYPE_OF_NUMBER = {number: dtype for dtype, number in NUMBER_OF_DTYPE.items()}
MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
DEVICE_NUMBERS = {"cpu": 0, "cuda": 1, "meta": 14}


def _item(tensor: torch.Tensor) -> Any:
    return tensor.item()


def _contiguous(tensor: torch.Tensor, memory_format: torch.memory_format) -> torch.Tensor:
    return tensor.contiguous(memory_format=memory_format)


def _to(tensor, device, dtype, non_blocking, copy, memory_format):
    options = {"memory_format": memory_format} if memory_format is not None else {}
    return tensor.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=copy, **options)


def _get_item(tensor, indices):
    return tensor[tuple(indices)]


def _set_item(tensor, indices, value):
    tensor[tuple(indices)] = value


def _tensor(values, dtype, layout, device, pin_memory):
    return torch.tensor(values, dtype=dtype, device=device, pin_memory=bool(pin_memory))


class _DeviceMemory:
    """Memory of the device that torch.as_tensor takes without copying."""

    def __init__(self, address: int, count: int):
        bytes_at = {"shape": (count,), "typestr": "|u1", "data": (address, False), "version": 2}
        self.__cuda_array_interface__ = bytes_at


def _from_blob(address, sizes, strides, dtype, layout, device, pin_memory):
    """A tensor over memory that the extension owns."""
    dtype = dtype or torch.get_default_dtype()
    elements = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if all(sizes) else 0
    count = elements * torch.empty((), dtype=dtype).element_size()
    if count == 0:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if device is not None and torch.device(device).type == "cuda":
        memory = torch.as_tensor(_DeviceMemory(address, count), device="cuda")
    else:
        memory = torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)
    return memory.view(dtype).as_strided(sizes, strides)


def _gemm(stream, a_transposed, b_transposed, m, n, k, count, alpha, beta, *matrices):
    """C = alpha op(A) op(B) + beta C as cuBLAS defines it: column-major matrices, `count` products at once."""

    def matrix(which, rows, columns):
        address, dtype, leading, stride = matrices[4 * which : 4 * which + 4]
        return _from_blob(address, [count, rows, columns], [stride, 1, leading], dtype, None, "cuda", None)

    with torch.cuda.stream(torch.cuda.ExternalStream(stream) if stream else torch.cuda.default_stream()):
        a = matrix(0, k, m).transpose(1, 2) if a_transposed else matrix(0, m, k)
        b = matrix(1, n, k).transpose(1, 2) if b_transposed else matrix(1, k, n)
        c = matrix(2, m, n)
        computed = torch.float64 if c.dtype == torch.float64 else torch.float32
        product = alpha * torch.matmul(a.to(computed), b.to(computed))
        c.copy_(product + beta * c.to(computed) if beta else product)


def _stream(stream) -> Tuple[int, int, Any]:
    return stream.cuda_stream, stream.device_index, stream


def _device_index(index: int):
    return None if index < 0 else index


def _set_grad_enabled(enabled: bool) -> bool:
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(enabled)
    return before


_libraries: Dict[str, Any] = {}  # torch withdraws the operators of a Library that is collected


def _library(namespace: str):
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    return _libraries[namespace]


def _library_define(namespace: str, schema: str) -> None:
    _library(namespace).define(schema)


def _library_impl(namespace: str, name: str, key: str, function: Callable) -> None:
    _library(namespace).impl(name.split("::")[-1], function, key)


# Calls that are no operator of the dispatcher, or that Python's own function answers best.
FUNCTIONS: Dict[str, Callable] = {
    "item": _item,
    "contiguous": _contiguous,
    "to": _to,
    "get_item": _get_item,
    "set_item": _set_item,
    "tensor": _tensor,
    "from_blob": _from_blob,
    "gemm": _gemm,
    "str": str,
    "is_pinned": lambda tensor: tensor.is_pinned(),
    "grad": lambda tensor: tensor.grad,
    "requires_grad_": lambda tensor, value: tensor.requires_grad_(value),
    "set_grad_enabled": _set_grad_enabled,
    "current_stream": lambda index: _stream(torch.cuda.current_stream(_device_index(index))),
    "default_stream": lambda index: _stream(torch.cuda.default_stream(_device_index(index))),
    "pool_stream": lambda priority: _stream(torch.cuda.Stream(priority=priority)),
    "external_stream": lambda address: _stream(torch.cuda.ExternalStream(address)),
    "record_stream": lambda tensor, stream: tensor.record_stream(stream),
    "set_stream": lambda stream: torch.cuda.set_stream(stream),
    "library_define": _library_define,
    "library_impl": _library_impl,
    "operator +": python_operator.add,
    "operator -": python_operator.sub,
    "operator *": python_operator.mul,
    "operator /": python_operator.truediv,
    "operator %": python_operator.mod,
    "operator &": python_operator.and_,
    "operator |": python_operator.or_,
    "operator ^": python_operator.xor,
    "operator <": python_operator.lt,
    "operator <=": python_operator.le,
    "operator >": python_operator.gt,
    "operator >=": python_operator.ge,
    "operator ==": python_operator.eq,
    "operator !=": python_operator.ne,
    "operator +=": python_operator.iadd,
    "operator -=": python_operator.isub,
    "operator *=": python_operator.imul,
    "operator /=": python_operator.itruediv,
}


def _aten_function(full_name: str) -> Callable:
    """An operator as a function of all its arguments by position, as C++ calls it."""
    name, _, overload = full_name.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    arguments = function._schema.arguments
    positional = sum(not argument.kwarg_only for argument in arguments)
    keywords = [argument.name for argument in arguments[positional:]]
    if not keywords:
        return function
    return lambda *values: function(*values[:positional], **dict(zip(keywords, values[positional:])))


class Callbacks:
    """The functions that the light header calls; the names are used in C++."""

    @staticmethod
    def operator(name: str, arguments: Tuple) -> Any:
        function = FUNCTIONS.get(name)
        if function is None:
            function = FUNCTIONS[name] = _aten_function(name)
        return function(*arguments)

    @staticmethod
    def describe(tensor: torch.Tensor) -> Tuple:
        """What assay::TensorState::read expects."""
        if tensor.layout != torch.strided:
            raise Unsupported(f"extensions with Assay's light header take dense tensors, not {tensor.layout}")
        device = tensor.device
        return (
            tensor.data_ptr(),
            NUMBER_OF_DTYPE[tensor.dtype],
            DEVICE_NUMBERS[device.type],
            -1 if device.index is None else device.index,
            tensor.numel(),
            tensor.storage_offset(),
            tensor.untyped_storage().data_ptr(),
            tensor.requires_grad,
            tensor.shape,
            tensor.stride(),
        )

    @staticmethod
    def is_tensor(value: Any) -> int:
        return int(isinstance(value, torch.Tensor))

    @staticmethod
    def number_of_dtype(value: Any) -> int:
        return NUMBER_OF_DTYPE.get(value, -1) if isinstance(value, torch.dtype) else -1

    @staticmethod
    def dtype_of_number(number: int) -> torch.dtype:
        return DTYPE_OF_NUMBER[number]

    @staticmethod
    def number_of_memory_format(value: Any) -> int:
        return MEMORY_FORMATS.index(value) if value in MEMORY_FORMATS else -1

    @staticmethod
    def memory_format_of_number(number: int) -> torch.memory_format:
        return MEMORY_FORMATS[number]

    @staticmethod
    def number_of_layout(value: Any) -> int:
        return 0 if value is torch.strided else -1

    @staticmethod
    def layout_of_number(number: int) -> torch.layout:
        return torch.strided

    @staticmethod
    def device_of_name(name: str) -> torch.device:
        return torch.device(name)

    @staticmethod
    def show_arguments(positional: Tuple, named: Any) -> str:
        """The arguments of a call that fits no overload, as pybind11 lists them."""
        shown = ", ".join(repr(value) for value in positional)
        if named:
            shown += "; kwargs: " + ", ".join(f"{name}={value!r}" for name, value in named.items())
        return shown
