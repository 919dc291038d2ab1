"""Which values the inputs of a problem may take, found by trying.

A problem in Python generates inputs and says nothing about others. Most float inputs may be any number; some
may not: a logarithm needs positive ones, a loss probabilities, targets are 1 or -1. The problem's own
reference is run on the CPU at a small shape with normal random numbers in place of each float input: where
that makes its outputs not finite, positive ones are tried, and then only the generator's own values count as
legal (`values = "generated"`), as always for integers.
"""
from __future__ import annotations

from typing import Callable, Dict, Optional, Sequence

import torch

from assay.contract import FLOATS, Contract
from assay.problem import ProblemError
from assay.problem.runtime.common import set_seed

Tensors = Dict[str, torch.Tensor]
FEW_VALUES = 3  # a float tensor of two to this many distinct values is a mask or a target


def settle(contract: Contract, run: Callable[[Tensors], Sequence[torch.Tensor]],
           make: Callable[[int], Tensors],
           index_bound: Optional[str] = None) -> None:
    """Sets `values` of the contract's inputs. Raises ProblemError for a reference that is random."""
    inputs = make(1)
    set_seed(2)  # a random reference goes on from there, and so differs from one run to the next
    expected = _run(run, inputs)
    if any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a,
           b in zip(expected, _run(run, inputs))):
        raise ProblemError("the problem's reference gives different results for the same inputs (dropout in "
                           "training mode?); there is nothing to compare an answer with")
    integers = [name for name, tensor in contract.input_tensors() if tensor.dtype not in FLOATS]
    for name, tensor in contract.input_tensors():
        if tensor.dtype == "bool":
            continue
        if tensor.dtype not in FLOATS:
            one = index_bound is not None and len(integers) == 1
            tensor.values = f"index({index_bound})" if one else "generated"
        else:
            tensor.values = _float_values(name, inputs, run, expected)


def _float_values(name: str, inputs: Tensors, run: Callable, expected: Sequence[torch.Tensor]) -> str:
    given = inputs[name].to(torch.float64)
    distinct = torch.unique(given).numel()
    if given.numel() > 2 * FEW_VALUES and 2 <= distinct <= FEW_VALUES:
        return "generated"
    if given.dim() and given.shape[-1] > 1 and bool((given >= 0).all()) and _sums_to_one(given):
        return "generated"
    set_seed(2)
    normal = torch.randn(given.shape).to(inputs[name].dtype)
    for values, tried in (("real", normal), ("positive", normal.abs() + 1e-3)):
        if _finite(_run(run, {**inputs, name: tried})) or not _finite(expected):
            return values
    return "generated"


def _sums_to_one(tensor: torch.Tensor) -> bool:
    return bool(torch.allclose(tensor.sum(-1), torch.ones((), dtype=tensor.dtype), atol=1e-3))


def _run(run: Callable[[Tensors], Sequence[torch.Tensor]], inputs: Tensors) -> Sequence[torch.Tensor]:
    return [tensor.clone() for tensor in run({name: tensor.clone() for name, tensor in inputs.items()})]


def _finite(tensors: Sequence[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors if tensor.is_floating_point())
