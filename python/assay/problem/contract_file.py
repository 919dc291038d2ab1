"""The contract that describes a benchmark problem, and its text.

A `Contract` holds what all formats have in common; `text()` writes it as TOML. Dims are written as constants
where only one value occurs. Names that the contract language reserves get a trailing underscore
(`safe_name`).
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple, Union

KEYWORDS = frozenset("if then else and or not in inf nan true false stream workspace".split())
RESERVED_FOR_DIMS = KEYWORDS | frozenset(
    "sum mean max min argmax argmin exp log log1p expm1 sqrt rsqrt tanh erf sigmoid sin cos abs floor pow "
    "ceil round exp2 log2 erfc softplus ceil_div sign isnan f64 f32 f16 bf16 e4m3 e5m2 i8 u8 i16 i32 u32 i64 "
    "u64 bool".split())

# The names of torch's dtypes, without "torch.", in the contract language.
DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2", "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "bool": "bool",
}
FLOATS = frozenset(("f64", "f32", "f16", "bf16", "e4m3", "e5m2"))

MAX_I32 = 2**31 - 1


def safe_name(name: str, taken: Sequence[str] = (), dim: bool = False) -> str:
    """`name`, made fit to be a name in a contract, and none of those taken."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "value"
    if name[0].isdigit():
        name = "_" + name
    while name in (RESERVED_FOR_DIMS if dim else KEYWORDS) or name in taken:
        name += "_"
    return name


@dataclass
class Dim:
    """An axis: one constant, or a range."""
    low: int
    high: int
    multiple_of: int = 1

    def text(self) -> str:
        if self.low == self.high:
            return str(self.low)
        parts = [f"min = {self.low}", f"max = {self.high}"]
        if self.multiple_of != 1:
            parts.append(f"multiple_of = {self.multiple_of}")
        if self.high > MAX_I32:
            parts.append('type = "i64"')
        return "{ " + ", ".join(parts) + " }"


@dataclass
class Tensor:
    dtype: str
    shape: List[Union[str, int]]
    role: str = "in"
    values: Optional[str] = None

    def text(self, name: str) -> str:
        shape = ", ".join(quoted(extent) if isinstance(extent, str) else str(extent) for extent in self.shape)
        lines = [f"[tensors.{name}]", f'dtype = "{self.dtype}"', f"shape = [{shape}]"]
        if self.role != "in":
            lines.append(f'role = "{self.role}"')
        if self.values and self.role != "out":
            lines.append(f"values = {quoted(self.values)}")
        return "\n".join(lines) + "\n"


@dataclass
class Scalar:
    dtype: str
    values: List[Union[int, float]]

    def text(self, name: str) -> str:
        values = [number(value) for value in self.values]
        value = f"value = {values[0]}" if len(values) == 1 else f"values = [{', '.join(values)}]"
        return f'[scalars.{name}]\ndtype = "{self.dtype}"\n{value}\n'


@dataclass
class Contract:
    title: str
    args: List[str] = field(default_factory=list)
    returns: str = "outputs"
    dims: Dict[str, Dim] = field(default_factory=dict)
    tensors: Dict[str, Tensor] = field(default_factory=dict)
    scalars: Dict[str, Scalar] = field(default_factory=dict)
    shapes: List[Dict[str, int]] = field(default_factory=list)
    only_listed_shapes: bool = False
    math: str = "standard"
    accumulate: str = "f32"
    own_kernel: bool = True  # an answer without a kernel of its own is at fault
    notes: List[str] = field(default_factory=list)

    def text(self) -> str:
        """The contract as TOML."""
        head = "".join(f"# {line}\n" for line in self.notes)
        head += f"title = {quoted(self.title)}\n"
        if self.only_listed_shapes:
            head += "only_listed_shapes = true\n"
        args = ", ".join(quoted(name) for name in self.args)
        parts = [head, f'[kernel]\npython = "adapter.py:run"\nargs = [{args}]\nreturns = "{self.returns}"\n']
        if self.dims:
            parts.append("[dims]\n" + "".join(f"{name} = {dim.text()}\n" for name, dim in self.dims.items()))
        for shape in self.shapes:
            varying = [(name, value) for name, value in shape.items() if not self._is_constant(name)]
            if varying:
                parts.append("[[shapes]]\n" + "".join(f"{name} = {value}\n" for name, value in varying))
        parts += [tensor.text(name) for name, tensor in self.tensors.items()]
        parts += [scalar.text(name) for name, scalar in self.scalars.items()]
        parts.append('[reference]\ntorch = "problem/call.py:run"\n'
                     f'accumulate = "{self.accumulate}"\nmath = "{self.math}"\n')
        parts.append('[inputs]\ntorch = "problem/call.py:make"\n')
        # No benchmark promises anything about NaN in inputs.
        own_kernel = "" if self.own_kernel else "own_kernel = false\n"
        parts.append(f'[require]\nnonfinite = "warn"\n{own_kernel}')
        return "\n".join(parts)

    def inputs(self) -> List[Tuple[str, Tensor]]:
        return [(name, tensor) for name, tensor in self.tensors.items() if tensor.role != "out"]

    def _is_constant(self, name: str) -> bool:
        return self.dims[name].low == self.dims[name].high


def quoted(text: str) -> str:
    """A TOML string."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", " ", text) + '"'


def number(value: Union[int, float]) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    text = repr(value)
    return text if isinstance(value, int) or any(c in text for c in ".en") else text + ".0"
