"""Arguments and results of operators: tensors in tuples, lists and dicts. torch's own functions for this also
know registered classes, and are ten times slower, which counts when a recurrent reference has 10,000
operators."""
from typing import Any, Callable, List

import torch


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    kind = type(tree)
    if kind is tuple:
        return tuple([tree_map(function, x) for x in tree])
    if kind is list:
        return [tree_map(function, x) for x in tree]
    if kind is dict:
        return {name: tree_map(function, x) for name, x in tree.items()}
    return function(tree)


def tensors_in(*trees: Any) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    _collect(trees, found)
    return found


def _collect(tree: Any, found: List[torch.Tensor]) -> None:
    if isinstance(tree, torch.Tensor):
        found.append(tree)
    elif type(tree) in (tuple, list):
        for x in tree:
            _collect(x, found)
    elif type(tree) is dict:
        for x in tree.values():
            _collect(x, found)
