"""Formats and the precision that a problem declares for intermediate values.

`u` is a unit roundoff, `eta` the absolute error of one operation where values are tiny. The constants are
those of docs/numerics.md, part 2.
"""
from dataclasses import dataclass
from typing import Optional

import torch

# The rms of a rounding to nearest, in units of u |v|, for a significand distributed as the reciprocal.
RMS = 0.425
INF = float("inf")

# Types whose values the evaluation keeps in float64: a cast to one of them declares a rounding.
WIDENED = (torch.float32, torch.bfloat16, torch.float16)
FP8 = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)

_SIGNIFICAND = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}

# Contract names of types.
DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bool": torch.bool,
    "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
}
DTYPES.update({f"u{n}": getattr(torch, f"uint{n}") for n in (16, 32, 64) if hasattr(torch, f"uint{n}")})


def unit_roundoff(dtype: torch.dtype) -> float:
    return 2.0 ** -_SIGNIFICAND[dtype]


@dataclass(frozen=True)
class Precision:
    """What a correct kernel may use for intermediate values."""

    dtype: torch.dtype = torch.float32
    fast: bool = False  # the documented errors of the intrinsics of --use_fast_math
    tensor_cores: bool = False
    tf32: bool = False  # f32 operands of products may be rounded or cut off to tf32

    @property
    def u(self) -> float:
        # The evaluation itself is in float64: a problem accumulated in f64 pays for both.
        return unit_roundoff(self.dtype) * (2 if self.dtype == torch.float64 else 1)

    @property
    def eta(self) -> float:
        info = torch.finfo(self.dtype)
        return info.tiny if self.fast else info.tiny * info.eps / 2

    @property
    def added(self) -> float:
        """Absolute error of one addition to a sum: `atom.add.f32` flushes subnormal numbers."""
        return 2 * torch.finfo(torch.float32).tiny if self.dtype == torch.float32 else self.eta

    @property
    def max(self) -> float:
        return torch.finfo(self.dtype).max

    def holds(self, v: torch.Tensor) -> torch.Tensor:
        """Which values the precision represents exactly. In f64, in which they were computed, a result is
        known to be exact if it is much shorter."""
        narrow = torch.float32 if self.dtype == torch.float64 else self.dtype
        held = v.to(narrow).to(torch.float64) == v
        return held & ~self.flushed(v) if self.fast else held

    def flushed(self, v: torch.Tensor) -> torch.Tensor:
        """Which values `--use_fast_math` takes for zeros, as operands and as results."""
        return (v != 0) & (v.abs() < torch.finfo(torch.float32).tiny)


def is_narrow(dtype: Optional[torch.dtype], precision: Precision) -> bool:
    """Whether a value of this type may be rounded further than the declared precision rounds it."""
    return dtype in _SIGNIFICAND and _SIGNIFICAND[dtype] < _SIGNIFICAND[precision.dtype]


def half_ulp(v: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the distance of neighbours in `dtype` at |v|."""
    info = torch.finfo(dtype)
    exponent = torch.frexp(v.abs().clamp(min=info.tiny)).exponent - 1
    return torch.ldexp(torch.full_like(v, unit_roundoff(dtype)), exponent)


def round_to(v: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Correctly rounded to any float type, as float64 (fp8: as torch converts, not saturating)."""
    return narrowed(v, dtype).to(torch.float32 if dtype in FP8 else dtype).to(torch.float64)


def narrowed(v: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float64 to `dtype` with a single rounding: through float32 rounded to odd, which loses nothing."""
    if dtype in (torch.float64, torch.float32):
        return v.to(dtype)
    return _odd_float32(v).to(dtype)


def _odd_float32(v: torch.Tensor) -> torch.Tensor:
    nearest = v.to(torch.float32)
    wide = nearest.to(torch.float64)
    bits = nearest.view(torch.int32)
    # Inexact and even: the neighbour toward v is odd. Away from zero the code grows by one, else it shrinks.
    toward = torch.where(wide.abs() < v.abs(), 1, -1).to(torch.int32)
    moved = (wide != v) & ((bits & 1) == 0) & torch.isfinite(nearest) & (wide != 0)
    return torch.where(moved, bits + toward, bits).view(torch.float32)
