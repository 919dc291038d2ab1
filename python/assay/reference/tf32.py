"""TF32: what products lose whose f32 operands a tensor core reads with ten bits of fraction.

The hardware cuts the other bits off. That is a rounding toward zero, so every product is too small, and by
much the same share: such errors do not average out in the sums that follow, as those of a rounding to
nearest do. Variances alone cannot follow them; the reference is evaluated a second time with its operands
cut off, and the square of what its results move by is added to their variance.
"""
from typing import Callable, Dict, Tuple

import torch

from .exact import Evaluation

Tensor = torch.Tensor
Result = Tuple[Tensor, Tensor, Tensor]

# The largest relative error of an operand, cut off or rounded; the mean of the errors of operands that are
# cut off, for significands distributed as the reciprocal, in units of the largest: 1/2 of 1 / (2 log 2).
LARGEST = 2.0 ** -10
MEAN = 0.36

_CUT = ~((1 << 42) - 1)  # float64 has 52 bits of fraction
# Which arguments are the operands of products.
_OPERANDS = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "vdot": (0, 1), "addmm": (1, 2),
             "baddbmm": (1, 2), "addmv": (1, 2), "addbmm": (1, 2), "convolution": (0, 1),
             "convolution_backward": (0, 1, 2)}


def cut_off(v: Tensor) -> Tensor:
    """The tf32 number next to v, toward zero. (What is nonfinite keeps its significand's first bits.)"""
    return (v.contiguous().view(torch.int64) & _CUT).view(torch.float64)


class CutOff(Evaluation):
    """The evaluation of a reference whose products cut their operands off."""

    def compute(self, func, operator, args, kwargs, declared):
        places = _OPERANDS.get(operator.base_name, ())
        args = tuple(cut_off(x) if i in places and isinstance(x, Tensor) and x.dtype == torch.float64 else x
                     for i, x in enumerate(args))
        return super().compute(func, operator, args, kwargs, declared)


def allowed_for(results: Dict[str, Result], outputs_of: Callable[[Evaluation], Dict[str, Tensor]],
                margin: float = 0.0) -> Dict[str, Result]:
    """Results whose deviations hold what the cut off operands move them by; `margin`: times that in the
    bounds, where these know nothing of TF32."""
    run = CutOff()
    outputs = outputs_of(run)
    made = {}
    for name, (value, bound, sigma) in results.items():
        moved = run.widened(outputs[name]).detach()
        if value.is_floating_point() and moved.shape == value.shape:
            drift = torch.nan_to_num((moved - value).abs(), nan=0.0, posinf=0.0)
            bound = bound + margin * drift
            sigma = torch.minimum((sigma ** 2 + drift ** 2).sqrt(), bound)
        made[name] = (value, bound, sigma)
    return made
