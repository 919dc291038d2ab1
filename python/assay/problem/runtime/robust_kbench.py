"""robust-kbench's tasks and kernels, called as its harness calls them.

The harness builds `Model(**init)` and calls it with `fn=` the kernel instead of the task's function: the
kernel gets what the model passes on, inputs, parameters and numbers. A backward kernel is called by the
task's `AutogradFunction`.
"""
from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List, Sequence, Tuple

import torch

from assay.problem.runtime import common

SEED = 42
COMPILE_FLAGS = ["-O3", "--use_fast_math"]


def arguments_of(module: ModuleType, setting: Dict[str, Dict[str, Any]]) -> List[Any]:
    """What the model passes on to its function."""
    model = module.Model(**setting["init"])
    passed: List[Any] = []

    def record(*arguments: Any) -> torch.Tensor:
        passed.extend(arguments)
        return torch.zeros(())

    model(*module.get_inputs(**setting["input"]), fn=record)
    return passed


def parameters_of(module: ModuleType, arguments: Sequence[Any]) -> List[str]:
    names = list(inspect.signature(module.forward_fn).parameters)
    return names if len(names) >= len(arguments) else [f"x{number}" for number in range(len(arguments))]


def differentiated(arguments: Sequence[Any]) -> List[int]:
    """The places of the arguments whose gradients the harness compares."""
    return [index for index, value in enumerate(arguments)
            if isinstance(value, torch.Tensor) and value.requires_grad]


class Task:
    """The reference side: the task's function, or the gradients of it."""

    def __init__(self, module: ModuleType, names: Sequence[str], pattern: Any, differentiated: Sequence[int]):
        """`differentiated` are the places of the arguments to differentiate by; none for a forward task."""
        self._module, self._names, self._pattern = module, list(names), pattern
        self._wanted = list(differentiated)

    def run(self, tensors: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
        if not self._wanted:
            with torch.no_grad():
                return tuple(common.tensors_in(self._module.forward_fn(*self._filled(tensors))))
        grad_output, *arguments = self._filled(tensors)
        with torch.enable_grad():
            for place in self._wanted:
                arguments[place] = arguments[place].detach().requires_grad_()
            output = self._module.forward_fn(*arguments)
            return torch.autograd.grad(output, [arguments[place] for place in self._wanted], grad_output)

    def make(self, setting: Dict[str, Dict[str, Any]], seed: int) -> Dict[str, torch.Tensor]:
        found: Dict[str, torch.Tensor] = {}
        with common.plain_torch():
            common.set_seed(SEED + seed)
            arguments = [value.detach() if isinstance(value, torch.Tensor) else value
                         for value in arguments_of(self._module, setting)]
            if self._wanted:
                with torch.no_grad():
                    arguments.insert(0, torch.randn_like(self._module.forward_fn(*arguments)))
            common.template(arguments, iter(self._names), found)
        return found

    def _filled(self, tensors: Sequence[torch.Tensor]) -> List[Any]:
        return common.filled(self._pattern, dict(zip(self._names, tensors)))


class Context:
    """What torch.autograd hands to a Function, as far as tasks use it."""

    def __init__(self) -> None:
        self.saved_tensors: Tuple[Any, ...] = ()
        self.needs_input_grad = [True] * 64

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass


class Answer:
    """The answer side: the kernel, compiled with the flags of the harness.

    `ranks` are the numbers of axes of the outputs: the harness broadcasts when it compares, so that a tensor of
    one element may stand for a number.
    """

    def __init__(self, folder: Path, direction: str, names: Sequence[str], ranks: Sequence[int]):
        from torch.utils.cpp_extension import load

        self._backward, self._names, self._ranks = direction == "backward", list(names), list(ranks)
        extension = load(name="kernel", sources=[str(folder / "kernel.cu")], extra_cuda_cflags=COMPILE_FLAGS,
                         with_cuda=True)
        self._kernel = getattr(extension, direction)
        if self._backward:
            self._function = common.load_file(folder / "autograd.py", "autograd").AutogradFunction
            self._function.backward_fn = self._kernel

    def run(self, tensors: Sequence[torch.Tensor], pattern: Any) -> Tuple[torch.Tensor, ...]:
        arguments = common.filled(pattern, dict(zip(self._names, tensors)))
        with torch.no_grad():
            if not self._backward:
                return self._returned(self._kernel(*arguments))
            context = Context()
            self._function.forward(context, *arguments[1:])
            return self._returned(self._function.backward(context, arguments[0]))

    def _returned(self, result: Any) -> Tuple[torch.Tensor, ...]:
        outputs = zip(common.tensors_in(result), self._ranks)
        return tuple(tensor.reshape(()) if rank == 0 and tensor.numel() == 1 else tensor
                     for tensor, rank in outputs)
