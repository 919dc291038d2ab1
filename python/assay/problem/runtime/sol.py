"""SOL-ExecBench and FlashInfer-Bench: the reference, its inputs, and solutions, called as the benchmark calls
them.
"""
from __future__ import annotations

import importlib
import json
import sys
from math import pi, sqrt
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from assay.problem.runtime import common
from assay.problem.sol_values import (BINARY_MASKS, COS_SIN, DECAY, NORM, POSITIVE, SOFTMAX_OUTPUTS,
                                      WEIGHT_SUFFIX, find_file)

CPP_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class Problem:
    """The reference side. `axes` and `inputs` map the definition's names to the contract's."""

    def __init__(self, folder: Path, axes: Dict[str, str], inputs: Dict[str, str], derived: Dict[str, str],
                 workloads: Sequence[Dict[str, Any]], files: str):
        self._definition = json.loads((folder / "definition.json").read_text(encoding="utf-8"))
        self._module = common.load_file(folder / "reference.py", "reference")
        self._axes, self._inputs, self._derived = axes, inputs, derived
        self._workloads, self._files = workloads, Path(files)

    def run(self, arguments: Sequence[Any]) -> Tuple[torch.Tensor, ...]:
        outputs = self._definition["outputs"]
        dtypes = {name: getattr(torch, spec["dtype"]) for name, spec in outputs.items()}
        return common.in_order(self._module.run(*arguments), list(outputs), dtypes, "cpu")

    def make(self, dims: Dict[str, int], seed: int) -> Dict[str, torch.Tensor]:
        """The benchmark's own inputs at these dims, by the contract's names."""
        axes = {name: dims[renamed] for name, renamed in self._axes.items()}
        while len(axes) < len(self._definition["axes"]):
            for name, text in self._derived.items():
                try:
                    axes[name] = int(eval(text, {"__builtins__": {}}, dict(axes)))
                except NameError:
                    continue  # it follows from an axis that is not known yet
        workload = self._workload(axes)
        with common.plain_torch():
            common.set_seed(seed)
            custom = self._custom(axes, workload)
            made = {}
            for name, spec in self._definition["inputs"].items():
                if spec["shape"] is None:
                    continue
                shape = [int(axis) if axis.isdigit() else axes[axis] for axis in spec["shape"]]
                given = workload["inputs"].get(name, {})
                if given.get("type") == "safetensors":
                    made[self._inputs[name]] = self._from_file(given, name)
                elif name in custom:
                    made[self._inputs[name]] = custom[name]
                else:
                    made[self._inputs[name]] = random_input(name, shape, getattr(torch, spec["dtype"]),
                                                            spec.get("description") or "")
        if self._definition.get("op_type") == "sampling" and "probs" in made:
            made["probs"] = torch.softmax(made["probs"], dim=-1)
        return made

    def _workload(self, axes: Dict[str, int]) -> Dict[str, Any]:
        """The workload of these axes, or one that says where its inputs come from."""
        for workload in self._workloads:
            if all(axes.get(name) == value for name, value in workload["axes"].items()):
                return workload
        return self._workloads[0] if self._workloads else {"axes": {}, "inputs": {}}

    def _custom(self, axes: Dict[str, int], workload: Dict[str, Any]) -> Dict[str, torch.Tensor]:
        entry = self._definition.get("custom_inputs_entrypoint")
        if not entry:
            return {}
        scalars = {name: given["value"] for name, given in workload["inputs"].items()
                   if given.get("type") == "scalar"}
        return getattr(self._module, entry)({**axes, **scalars}, torch.device("cpu"))

    def _from_file(self, given: Dict[str, Any], name: str) -> torch.Tensor:
        from safetensors.torch import load_file

        path = find_file(self._files, given["path"])
        if path is not None:
            return load_file(str(path))[given["tensor_key"]].contiguous()
        raise FileNotFoundError(f"{given['path']} of the input {name} is not below {self._files}; download "
                                "the benchmark's files")


def random_input(name: str, shape: List[int], dtype: torch.dtype, description: str = "") -> torch.Tensor:
    """A random input as the benchmark generates it for a tensor of this name."""
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, dtype=torch.bool)
    if not dtype.is_floating_point:
        low, high = (-128, 128) if dtype is torch.int8 else (-1024, 1024)
        return torch.randint(low, high, shape, dtype=dtype)
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return torch.randn(shape).clamp_(-2.0, 2.0).to(dtype)
    made = _by_name(name, shape, description.lower())
    return (torch.randn(shape, dtype=dtype) if made is None else made.to(dtype)).contiguous()


def _by_name(name: str, shape: List[int], description: str) -> Optional[torch.Tensor]:
    if NORM.search(name):
        return torch.ones(shape) if name.endswith("weight") else torch.zeros(shape)
    square = len(shape) > 1 and shape[-1] == shape[-2]
    if square and (name in ("attention_mask", "causal_mask")
                   or ("attention mask" in description and "causal" in description)):
        return torch.triu(torch.full(shape, torch.finfo(torch.bfloat16).min), diagonal=1)
    if name in BINARY_MASKS or (name.endswith("_mask") and "mask" in description):
        return torch.randint(0, 2, shape).float()
    if name in COS_SIN:
        angle = torch.randn(shape).clamp_(-pi, pi)
        return torch.cos(angle) if "cos" in name else torch.sin(angle)
    if POSITIVE.search(name):
        return torch.randn(shape).abs() + 0.1
    if name == "A_cumsum":
        return torch.empty(shape).uniform_(-0.1, 0.0).cumsum(-1)
    if name in DECAY:
        return torch.empty(shape).uniform_(*DECAY[name])
    if name in SOFTMAX_OUTPUTS or ("softmax" in description and "output" in description):
        return torch.softmax(torch.randn(shape), dim=-1)
    if len(shape) > 1 and WEIGHT_SUFFIX.search(name):
        return torch.randn(shape) / sqrt(shape[-1])
    return None


def python_function(folder: Path, file: str, function: str) -> Callable[..., Any]:
    """The entry point of a Python solution; its other sources can be imported."""
    sys.path.insert(0, str(folder))
    module = importlib.import_module(file[: -len(".py")].replace("/", "."))
    return getattr(module, function)


def cpp_function(folder: Path, file: str, function: str, flags: Dict[str, List[str]]) -> Callable[..., Any]:
    """The entry point of a C++ solution, compiled from all of its sources."""
    from torch.utils.cpp_extension import load

    sources = sorted(str(path) for path in folder.iterdir() if path.suffix in CPP_SUFFIXES)
    extension = load(name="benchmark_kernel", sources=sources, extra_cuda_cflags=flags["cuda_cflags"],
                     extra_cflags=flags["cflags"], extra_ldflags=flags["ld_flags"],
                     extra_include_paths=[str(folder)])
    return getattr(extension, function)


def returned(result: Any, outputs: Dict[str, str]) -> Tuple[torch.Tensor, ...]:
    """What a solution returned, in the order of the definition's outputs."""
    dtypes = {name: getattr(torch, dtype) for name, dtype in outputs.items()}
    return common.in_order(result, list(outputs), dtypes, "cuda")
