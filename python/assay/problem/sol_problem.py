"""A SOL-ExecBench or FlashInfer-Bench problem: its definition, its workloads, its axes."""
from __future__ import annotations

import ast
import json
import re
from math import prod
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from assay.contract import DTYPES
from assay.problem import ProblemError
from assay.problem.kernelbench import parse
from assay.problem.shrink import Sizes

MATRIX_PRODUCT = re.compile(r"\s@\s|matmul|einsum|\bmm\(|bmm\(|linear\(|scaled_dot|conv\dd")


def find_definition(path: Path) -> Optional[Path]:
    """The definition of a problem: definition.json in a folder, or a JSON file with axes and a reference."""
    if path.is_dir():
        path = path / "definition.json"
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
    return path if isinstance(content, dict) and {"axes", "inputs", "outputs",
                                                  "reference"} <= set(content) else None


class Problem:
    """A definition with its workloads, and the axes as the contract has them."""

    def __init__(self, path: Path):
        self.file = find_definition(path)
        self.definition: Dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        self.reference: str = self.definition["reference"]
        self.workloads = _workloads(self.file, self.definition.get("name", ""))
        self.constant = {name: axis["value"] for name, axis in self._axes("const")}
        self.variable = [name for name, _ in self._axes("var")]
        # Axes that follow from others: name -> Python expression.
        self.derived = {name: axis["expression"] for name, axis in self._axes("expr")}
        self.multiples: Dict[str, int] = {}
        self.notes: List[str] = []
        self.open_constraints: List[str] = []
        _check_reference(self.definition)
        for text in [*(self.definition.get("constraints") or []), *_assertions(self.reference)]:
            self._constrain(text)

    def _axes(self, kind: str) -> List[Tuple[str, Dict[str, Any]]]:
        return [(name, axis) for name, axis in self.definition["axes"].items() if axis.get("type") == kind]

    def _constrain(self, text: str) -> None:
        """Takes `axis == expression` and `axis % number == 0` into account; remembers what else speaks of var
        axes.
        """
        axes = set(self.definition["axes"])
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            return
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        if not names & set(self.variable):
            return
        if _is_equality(tree) and names <= axes:
            left, right = tree.left, tree.comparators[0]
            if self._take_multiple(left, right) or self._take_equality(left, right) \
                    or self._take_equality(right, left):
                return
        if names <= axes:
            self.open_constraints.append(text)

    def _take_multiple(self, left: ast.expr, right: ast.expr) -> bool:
        """`axis % number == 0`."""
        if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mod):
            return False
        if not isinstance(left.left, ast.Name):
            return False
        divisor = self._integer(left.right)
        if divisor and isinstance(right, ast.Constant) and right.value == 0:
            self.multiples[left.left.id] = divisor
            return True
        return False

    def _take_equality(self, axis: ast.expr, value: ast.expr) -> bool:
        """`axis == expression`: the axis follows from others."""
        inside = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        if not isinstance(axis, ast.Name) or axis.id not in self.variable or axis.id in inside:
            return False
        if not _is_integer_expression(value):
            return False
        self.variable.remove(axis.id)
        self.derived[axis.id] = ast.unparse(value)
        return True

    def _integer(self, node: ast.expr) -> Optional[int]:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        return self.constant.get(node.id) if isinstance(node, ast.Name) else None

    def all_axes(self, sizes: Sizes) -> Sizes:
        """The values of every axis, those that follow from others included."""
        values = {**self.constant, **sizes}
        waiting = dict(self.derived)
        while waiting:
            ready = [name for name, text in waiting.items()
                     if {n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)}
                     <= set(values)]
            if not ready:
                raise ProblemError(f"the axis {next(iter(waiting))} refers to an axis that is not defined")
            for name in ready:
                values[name] = int(eval(waiting.pop(name), {"__builtins__": {}}, values))
        return values

    def extents(self, sizes: Sizes) -> Dict[str, List[int]]:
        """The shapes of all tensors at these sizes."""
        axes = self.all_axes(sizes)
        return {name: [int(axis) if axis.isdigit() else axes[axis] for axis in spec["shape"]]
                for name, spec in self.tensors().items()}

    def tensors(self) -> Dict[str, Dict[str, Any]]:
        specs = {**self.definition["inputs"], **self.definition["outputs"]}
        return {name: spec for name, spec in specs.items() if spec["shape"] is not None}

    def work(self, sizes: Sizes) -> int:
        """Elements of all tensors, and multiply-adds where the reference multiplies matrices."""
        elements = sum(prod(shape) for shape in self.extents(sizes).values())
        if not MATRIX_PRODUCT.search(self.reference):
            return elements
        axes = self.all_axes(sizes)
        inputs = [set(spec["shape"]) for spec in self.definition["inputs"].values()
                  if len(spec["shape"] or ()) > 1]
        products = [prod(int(axis) if axis.isdigit() else axes[axis] for axis in a | b)
                    for index, a in enumerate(inputs) for b in inputs[index + 1:] if a & b and a != b]
        return elements + (max(products) if products else 0)


def _workloads(definition: Path, name: str) -> List[Dict[str, Any]]:
    """Beside definition.json in workload.jsonl; in FlashInfer-Bench's layout in workloads/**/NAME.jsonl."""
    files = [definition.with_name("workload.jsonl"), definition.with_name("workloads.jsonl")]
    for parent in list(definition.parents)[:4]:
        if (parent / "workloads").is_dir():
            files += sorted((parent / "workloads").rglob(f"{definition.stem}.jsonl"))
    for file in files:
        if file.is_file():
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()
                    if line.strip()]
            return [row.get("workload", row) for row in rows]
    raise ProblemError(f"{definition.parent} has no workload.jsonl; put it next to {definition.name}")


def _check_reference(definition: Dict[str, Any]) -> None:
    functions = {node.name: node for node in parse(definition["reference"], "the definition's reference").body
                 if isinstance(node, ast.FunctionDef)}
    if "run" not in functions:
        raise ProblemError("the definition's reference defines no function `run`")
    if re.search(r"^\s*(import|from) triton\b", definition["reference"], re.MULTILINE):
        raise ProblemError("the definition's reference is written in Triton; only a PyTorch reference can be "
                           "evaluated exactly")
    entry = definition.get("custom_inputs_entrypoint")
    if entry and entry not in functions:
        raise ProblemError(f"the definition's reference defines no function `{entry}` "
                           "(custom_inputs_entrypoint)")
    for name, spec in {**definition["inputs"], **definition["outputs"]}.items():
        if spec["dtype"] not in DTYPES:
            raise ProblemError(f"{name} is of type {spec['dtype']}, which contracts cannot express yet")


def _assertions(reference: str) -> List[str]:
    """Conditions that the reference's `run` asserts."""
    run = next(node for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)
               and node.name == "run")
    return [ast.unparse(node.test) for node in ast.walk(run) if isinstance(node, ast.Assert)]


def _is_equality(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)


def _is_integer_expression(node: ast.expr) -> bool:
    """Whether the contract's integer expressions can say it."""
    allowed = (ast.BinOp, ast.Name, ast.Load, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
    return all(isinstance(part, allowed) for part in ast.walk(node))
