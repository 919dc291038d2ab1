"""Functions of one argument: value, and how accurate an implementation may be taken to be.

The errors are those that the CUDA C++ programming guide documents: of the ordinary single-precision functions
for `standard` math, of the intrinsics that --use_fast_math selects for `fast`. They are given in units of u,
relative to the value and absolute; one ulp is at most 2 u. Where rewriting is usual and sound (exp(x) as
exp2(x * log2e), sqrt(x) as x * rsqrt(x)), the larger of the errors is allowed. The same table in C++ is
src/reference/functions.cpp; it differs in tanh, which PyTorch documents as a quotient of exponentials.

A second table is for the parts of operators that PyTorch documents with a formula that cancels (ELU with
exp(x) - 1, softplus with log(1 + exp(x))) and computes with expm1 or log1p itself.
"""
import math
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch

from .precision import Precision

Tensor = torch.Tensor
Error = Callable[[Tensor, Tensor, Precision], Tuple]


class Function(NamedTuple):
    value: Callable[[Tensor], Tensor]
    error: Error
    lipschitz: Optional[Tuple[float, float]] = None
    overflows: bool = False  # at a finite argument, where f64 does not
    low: Optional[float] = None  # the smallest argument: what rounds below it is taken as this


def ulps(count: float) -> Error:
    return lambda x, v, precision: (2 * count, 0.0)


def _size(x: Tensor) -> Tensor:
    return torch.where(torch.isfinite(x), x.abs().clamp(max=1e4), 0.0)


def exp_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """The product with log2 e and the rounded constant are both amplified by |x|; __expf documents
    2 + floor(1.173 |x|) ulp."""
    if precision.fast:
        return 2 * (2 + torch.floor(1.173 * _size(x))) + 2 * _size(x), 0.0
    return 4 + 2 * _size(x), 0.0


def _exp2_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    return 4 + 2 * math.log(2) * _size(x), 0.0


def log_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """__logf: 2^-21.41 absolute on [0.5, 2], else 3 ulp."""
    if not precision.fast:
        return 4, 0.0
    return 8, 2 ** (24 - 21.41) * ((x >= 0.5) & (x <= 2))


def _trigonometric_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """__sinf and __cosf: 2^-21.19 absolute on [-pi, pi]; beyond, the reduction of the argument loses |x|."""
    if not precision.fast:
        return 4, 0.0
    return 4, 2 ** (24 - 21.19) * torch.ones_like(x)


def _sqrt_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    return (6 if precision.fast else 3), 0.0


def _tanh_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """The hardware's tanh.approx: 2^-10.987 relative. Without it, through exp, as PyTorch documents it:
    (exp(x) - exp(-x)) / (exp(x) + exp(-x)), or 2 / (1 + exp(-2x)) - 1. Both lose a few u near 0."""
    of_exp, _ = exp_error(x, v, precision)
    return (2 ** (24 - 10.98) if precision.fast else 6), of_exp * (1 - v * v)


def _hyperbolic_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """Half the sum or difference of exp(x) and exp(-x), for sinh away from 0."""
    of_exp, _ = exp_error(x, v, precision)
    return torch.maximum(of_exp, torch.full_like(x, 6.0)), 0.0


def _sigmoid_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """1 / (1 + exp(-x)): where exp overflows the result is 0 instead of a tiny number."""
    of_exp, _ = exp_error(x, v, precision)
    lost = torch.where(x < -80, v / precision.u, 0.0)
    return of_exp * (1 - v) + (6 if precision.fast else 4), lost


def _exp_less_one_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """exp(x) - 1."""
    of_exp, _ = exp_error(x, v, precision)
    return 2, of_exp * torch.exp(x)


def _log_of_one_more_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """log(1 + x), or minus log(1 / (1 + x)): one rounding of each argument."""
    relative, absolute = log_error(1 + x, v, precision)
    return relative, 2 + absolute


def _log_sigmoid_error(x: Tensor, v: Tensor, precision: Precision) -> Tuple:
    """log(1 / (1 + exp(-x)))."""
    of_exp, _ = exp_error(x, v, precision)
    relative, absolute = log_error(1 + torch.exp(-x), v, precision)
    return relative, 3 + absolute + of_exp * torch.sigmoid(-x)


TABLE: Dict[str, Function] = {
    "exp": Function(torch.exp, exp_error, overflows=True),
    "exp2": Function(torch.exp2, _exp2_error, overflows=True),
    "expm1": Function(torch.expm1, exp_error, overflows=True),
    "log": Function(torch.log, log_error),
    "log2": Function(torch.log2, log_error),
    "log10": Function(torch.log10, ulps(3)),
    "log1p": Function(torch.log1p, ulps(2)),
    "sqrt": Function(torch.sqrt, _sqrt_error, low=0.0),
    "rsqrt": Function(torch.rsqrt, ulps(2)),
    "tanh": Function(torch.tanh, _tanh_error),
    "erf": Function(torch.erf, ulps(2)),
    "erfc": Function(torch.erfc, ulps(4)),
    "erfinv": Function(torch.erfinv, ulps(3)),
    "sigmoid": Function(torch.sigmoid, _sigmoid_error),
    "sin": Function(torch.sin, _trigonometric_error, lipschitz=(1.0, 2.0)),
    "cos": Function(torch.cos, _trigonometric_error, lipschitz=(1.0, 2.0)),
    "tan": Function(torch.tan, ulps(4)),
    "asin": Function(torch.asin, ulps(4)),
    "acos": Function(torch.acos, ulps(4)),
    "atan": Function(torch.atan, ulps(2)),
    "sinh": Function(torch.sinh, _hyperbolic_error, overflows=True),
    "cosh": Function(torch.cosh, _hyperbolic_error, overflows=True),
    "asinh": Function(torch.asinh, ulps(3)),
    "acosh": Function(torch.acosh, ulps(4)),
    "atanh": Function(torch.atanh, ulps(3)),
    "lgamma": Function(torch.lgamma, ulps(6)),
    "special_i0": Function(torch.special.i0, ulps(6), overflows=True),
}

LOG_SIGMOID = Function(torch.nn.functional.logsigmoid, _log_sigmoid_error)

# Inside these operators, the functions below are what the documented formula makes of them.
DOCUMENTED = {"elu", "elu_backward", "celu", "selu", "softplus", "softplus_backward", "mish", "mish_backward",
              "binary_cross_entropy", "binary_cross_entropy_backward", "binary_cross_entropy_with_logits",
              "soft_margin_loss", "soft_margin_loss_backward", "logaddexp", "logaddexp2"}
AS_DOCUMENTED: Dict[str, Function] = {
    "expm1": Function(torch.expm1, _exp_less_one_error, overflows=True),
    "log1p": Function(torch.log1p, _log_of_one_more_error),
}
