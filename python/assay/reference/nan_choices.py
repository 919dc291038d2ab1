"""What a NaN among the inputs decides, where the result is a number all the same.

A maximum's index, a mask or a clamp compares a NaN with something. PyTorch has its rules for that (a maximum is at
the NaN; the gradient of ReLU passes where the input is not at most 0), and kernels that compare otherwise are no
less right: no operator documents them. A result that is NaN is another matter: it has to be NaN.
"""
import math
from typing import Callable, Dict, Tuple

import torch

from .exact import Evaluation

Tensor = torch.Tensor
Result = Tuple[Tensor, Tensor, Tensor]

# What stands in place of NaN to see which results depend on it: small, large and negative, as in judge/masked.cpp.
REPLACEMENTS = (1.0, 2.0 ** 13, -2.0 ** 13)


def left_open(results: Dict[str, Result], inputs: Dict[str, Tensor],
              outputs_of: Callable[[Evaluation, Dict[str, Tensor]], Dict[str, Tensor]]) -> Dict[str, Result]:
    """Results without a bound where they are finite and depend on an input that is NaN."""
    if not any(t.is_floating_point() and bool(torch.isnan(t).any()) for t in inputs.values()):
        return results
    runs = []
    for replacement in REPLACEMENTS:
        replaced = {n: torch.nan_to_num(t, nan=replacement, posinf=math.inf, neginf=-math.inf)
                    if t.is_floating_point() else t for n, t in inputs.items()}
        runs.append(outputs_of(Evaluation(), replaced))
    made = {}
    for name, (value, bound, sigma) in results.items():
        first, *others = [run[name].detach() for run in runs]
        depends = torch.zeros(value.shape, dtype=torch.bool)
        for other in others:
            depends = depends | ((other != first) & torch.isfinite(value))
        made[name] = (value, torch.where(depends, math.inf, bound), torch.where(depends, math.inf, sigma))
    return made
