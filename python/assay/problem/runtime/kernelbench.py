"""KernelBench's `Model` and `ModelNew`, called as its harness calls them.

The harness seeds torch with 42, asks the problem for the initial arguments, seeds again, builds `Model`,
seeds again and builds `ModelNew` with the same arguments: parameters are equal because both modules create
them in the same order. Both stay in training mode and run without gradients.
"""
from __future__ import annotations

import contextlib
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List, Sequence, Tuple

import torch

from assay.problem.runtime import common
from assay.problem.source_constants import with_integers

SEED = 42


class Problem:
    """The reference side: `Model` and `get_inputs` of a problem file, at given sizes."""

    def __init__(self, path: Path, names: Sequence[str], pattern: Any):
        self._path, self._names, self._pattern = path, list(names), pattern
        self._text = path.read_text()
        self._models: Dict[Tuple[Tuple[str, int], ...], torch.nn.Module] = {}

    def run(self, tensors: Sequence[torch.Tensor], sizes: Dict[str, int]) -> Tuple[torch.Tensor, ...]:
        arguments = common.filled(self._pattern, dict(zip(self._names, tensors)))
        with torch.no_grad():
            return tuple(common.tensors_in(self._model(sizes)(*arguments)))

    def make(self, sizes: Dict[str, int], seed: int) -> Dict[str, torch.Tensor]:
        found: Dict[str, torch.Tensor] = {}
        with common.plain_torch():
            common.set_seed(seed)
            common.template(list(self._module(sizes).get_inputs()), iter(self._names), found)
        return found

    def _module(self, sizes: Dict[str, int]) -> ModuleType:
        return common.load_file(self._path, "problem", with_integers(self._text, sizes))

    def _model(self, sizes: Dict[str, int]) -> torch.nn.Module:
        key = tuple(sorted(sizes.items()))
        if key not in self._models:
            with common.plain_torch(), torch.no_grad():
                self._models[key] = build(self._module(sizes))
        return self._models[key]


def build(module: ModuleType) -> torch.nn.Module:
    """The problem's `Model`, with the parameters that the harness gives it."""
    common.set_seed(SEED)
    arguments = module.get_init_inputs()
    common.set_seed(SEED)
    return module.Model(*arguments)


class Answer:
    """The answer side: `ModelNew`, built with recorded initial arguments. `cases` lists sizes, arguments and
    file.
    """

    def __init__(self, folder: Path, names: Sequence[str], pattern: Any,
                 cases: Sequence[Tuple[Dict[str, int], List[Any], str]]):
        self._folder, self._names, self._pattern = folder, list(names), pattern
        self._cases = {tuple(sorted(sizes.items())): (arguments, file) for sizes, arguments, file in cases}
        self._modules: Dict[str, ModuleType] = {}
        self._models: Dict[Tuple[Tuple[str, int], ...], torch.nn.Module] = {}

    def run(self, tensors: Sequence[torch.Tensor], sizes: Dict[str, int]) -> Tuple[torch.Tensor, ...]:
        arguments = common.filled(self._pattern, dict(zip(self._names, tensors)))
        with torch.no_grad():
            return tuple(common.tensors_in(self._model(sizes)(*arguments)))

    def _model(self, sizes: Dict[str, int]) -> torch.nn.Module:
        key = tuple(sorted(sizes.items()))
        if key not in self._models:
            arguments, file = self._cases[key]
            if file not in self._modules:
                with _imports_from((self._folder / file).parent):
                    name = f"answer{len(self._modules)}"
                    self._modules[file] = common.load_file(self._folder / file, name)
            common.set_seed(SEED)
            with torch.no_grad():
                self._models[key] = self._modules[file].ModelNew(*arguments).cuda()
        return self._models[key]


@contextlib.contextmanager
def _imports_from(folder: Path):
    import sys

    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
