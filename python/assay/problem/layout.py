"""Tensors of a problem at several shapes, and their extents as expressions over dims.

A problem in Python says nothing about which extents belong together; it is seen at each listed shape
(`Specimen`). An extent that never changes is a number. One that equals a size at every shape, or a small
multiple, a sum or a product of sizes, becomes that expression; any other becomes a dim of its own.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from assay.contract import Contract, Dim, Tensor, safe_name

LARGEST_FACTOR = 64
LARGEST_OFFSET = 64


@dataclass
class Specimen:
    """A problem at one shape: dtypes and extents of its tensors, and what else calling it takes."""
    inputs: Dict[str, Tuple[str, List[int]]]
    outputs: Dict[str, Tuple[str, List[int]]]
    pattern: Any  # template of the arguments (runtime.common.template)
    initial: List[Any]  # arguments of the module's constructor
    work: int  # elements and multiply-adds

    def extents(self) -> List[List[int]]:
        return [shape for _, shape in [*self.inputs.values(), *self.outputs.values()]]


class Layout:
    """`sizes[i]` are the dims of the i-th shape, `specimens[i]` what the problem looks like there.

    `witness` is one more shape, which is not checked (the benchmark's own): it tells sizes apart that happen
    to be equal at the shapes that are.
    """

    def __init__(self, sizes: Sequence[Dict[str, int]], specimens: Sequence[Specimen],
                 witness: Optional[Tuple[Dict[str, int], Specimen]] = None):
        self._sizes = [dict(item) for item in sizes]
        self._specimens = list(specimens)
        self._witness = [witness] if witness else []

    def fill(self, contract: Contract) -> None:
        """Sets dims, shapes and tensors of the contract."""
        first = self._specimens[0]
        names = [*first.inputs, *first.outputs]
        for role, tensors in (("in", first.inputs), ("out", first.outputs)):
            for name, (dtype, shape) in tensors.items():
                extents = [self._extent(name, axis, names) for axis in range(len(shape))]
                contract.tensors[name] = Tensor(dtype, extents, role)
        for name in self._sizes[0]:
            values = [sizes[name] for sizes in self._sizes]
            contract.dims[name] = Dim.between(min(values), max(values))
        contract.shapes = without_constants(self._sizes, contract)

    def _extent(self, name: str, axis: int, taken: List[str]) -> Union[str, int]:
        given = [dim for dim in self._sizes[0] if all(dim in sizes for sizes, _ in self._witness)]
        rows = [*zip(self._sizes, self._specimens), *self._witness]
        values = [_shape(specimen, name)[axis] for _, specimen in rows]
        if len(set(values)) == 1:
            return values[0]
        expression = expression_of(values, {dim: [sizes[dim] for sizes, _ in rows] for dim in given})
        if expression:
            return expression
        values = values[: len(self._sizes)]
        if len(set(values)) == 1:
            return values[0]
        for dim in self._sizes[0]:
            if [sizes[dim] for sizes in self._sizes] == values and dim not in given:
                return dim
        dim = safe_name(f"{name}_{axis}", taken + list(self._sizes[0]), dim=True)
        for sizes, value in zip(self._sizes, values):
            sizes[dim] = value
        return dim


def without_constants(shapes: Sequence[Dict[str, int]], contract: Contract) -> List[Dict[str, int]]:
    """The shapes as a contract lists them: without dims that are constants, and none where all are."""
    listed = [{name: size for name, size in shape.items() if isinstance(contract.dims[name], Dim)}
              for shape in shapes]
    return [shape for shape in listed if shape]


def _shape(specimen: Specimen, name: str) -> List[int]:
    return (specimen.inputs.get(name) or specimen.outputs[name])[1]


def expression_of(values: Sequence[int], columns: Dict[str, List[int]]) -> str:
    """An expression over the columns that gives these values at every shape; empty where none of the simple
    ones does.
    """
    values = list(values)
    for name, column in columns.items():
        if column == values:
            return name
    for name, column in columns.items():
        for factor in range(2, LARGEST_FACTOR + 1):
            if [factor * value for value in column] == values:
                return f"{name} * {factor}"
            if [factor * value for value in values] == column:
                return f"{name} / {factor}"
        offsets = {value - base for value, base in zip(values, column)}
        if len(offsets) == 1 and abs(next(iter(offsets))) <= LARGEST_OFFSET:
            offset = offsets.pop()
            return f"{name} + {offset}" if offset > 0 else f"{name} - {-offset}"
    for name, column in columns.items():
        for other, second in columns.items():
            if [a * b for a, b in zip(column, second)] == values:
                return f"{name} * {other}"
    return ""
