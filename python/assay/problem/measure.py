"""What a problem in Python looks like at a shape: a forward pass on torch's `meta` device, which computes
shapes only.
"""
from __future__ import annotations

import ast
import itertools
from types import ModuleType
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from assay.contract import DTYPES, safe_name
from assay.problem import ProblemError
from assay.problem.layout import Specimen
from assay.problem.runtime import common


def namespace(source: str, name: str = "problem") -> ModuleType:
    """The module that a text defines."""
    module = ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def on_meta(call: Callable[..., Any], arguments: Sequence[Any]) -> Tuple[List[torch.Tensor], int]:
    """The tensors that a call on meta tensors returns, and its multiply-adds."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), torch.device("meta"), common.CudaAs("meta"), counter:
        outputs = common.tensors_in(call(*arguments))
    if not outputs:
        raise ProblemError("the problem's reference returns no tensor")
    return outputs, counter.get_total_flops() // 2


def specimen(parameters: Sequence[str], arguments: Sequence[Any], outputs: Sequence[torch.Tensor],
             initial: List[Any],
             work: int, output_names: Sequence[str] = ()) -> Specimen:
    """`parameters` name the arguments; lists of tensors get numbered names."""
    found: Dict[str, torch.Tensor] = {}
    patterns = []
    for parameter, argument in itertools.zip_longest(parameters, arguments, fillvalue=None):
        if parameter is None:
            raise ProblemError("get_inputs returns more arguments than forward takes")
        if argument is not None or len(patterns) < len(arguments):
            patterns.append(common.template(argument, _names(parameter, found), found))
    names = list(output_names) or (["out"] if len(outputs) == 1
                                   else [f"out{index}" for index in range(len(outputs))])
    names = [safe_name(name, list(found)) for name in names]
    results = dict(zip(names, outputs))
    elements = sum(tensor.numel() for tensor in [*found.values(), *outputs])
    return Specimen({name: _dtype_and_shape(name, tensor) for name, tensor in found.items()},
                    {name: _dtype_and_shape(name, tensor) for name, tensor in results.items()},
                    ("list", patterns), initial, elements + work)


def _names(parameter: str, taken: Dict[str, Any]):
    """The parameter's name, then numbered ones for the tensors of a list."""
    yield safe_name(parameter, list(taken))
    for number in itertools.count(1):
        yield safe_name(f"{parameter}{number}", list(taken))


def _dtype_and_shape(name: str, tensor: torch.Tensor) -> Tuple[str, List[int]]:
    dtype = str(tensor.dtype).replace("torch.", "")
    if dtype not in DTYPES:
        raise ProblemError(f"the tensor {name} is of type {dtype}, which contracts cannot express yet")
    return DTYPES[dtype], list(tensor.shape)


def plain(values: Sequence[Any], what: str) -> List[Any]:
    """The values, if they can be written as Python literals."""
    for value in values:
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError):
            same = False
        if not same:
            raise ProblemError(f"{what} contain a {type(value).__name__}; only numbers, strings and lists of "
                               "them can be passed on")
    return list(values)
