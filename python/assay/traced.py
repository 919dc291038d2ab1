"""A contract from a PyTorch function: its operators as a formula, where the language has them.

    assay init --from model.py:rmsnorm --tensor "x = bf16[rows, cols]" --tensor "w = bf16[cols]" --scalar "eps = 1e-6"

The function is traced on the meta device, with a different prime number for every dim, so that an extent of a
tensor on the way tells which dims it is made of. Each operator becomes a statement or a part of one. What was
stored in a smaller type on the way becomes a cast, which says that a kernel may round there. Where an operator has
no formula, the contract refers to the function itself (`torch = "model.py:rmsnorm"`). So it does where tracing with
other primes gives another formula: then a constant or a branch depends on the shape in a way that was not recognised.
"""

import argparse
import importlib.util
import inspect
import math
import os
import pathlib
import re
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from assay.contract import DTYPES
from assay.graph_formula import DECOMPOSED, PRIMES, GraphFormula, Sizes, Untranslated, plain

_NUDGE = 1 + 2.0**-40  # of a scalar, while the function is traced: a constant that is just this is the scalar
_SPEC = re.compile(r"^\s*(\w+)\s*=\s*(\w+)\s*\[([^\]]*)\]\s*$")
_EXTENT = re.compile(r"(\d+|[A-Za-z_]\w*)(\s*\*\s*(\d+|[A-Za-z_]\w*))*")
_SCALAR = re.compile(r"^\s*(\w+)\s*=\s*([-+\w.]+)\s*$")


class TraceError(Exception):
    """One line that says what cannot be traced, or what is wrong with the command."""


class TensorArgument(NamedTuple):
    name: str
    dtype: str  # as a contract spells it
    shape: Tuple[str, ...]  # dims, integers and products of them


class Traced(NamedTuple):
    """What became of a function."""

    formula: Optional[str]  # None: an operator has no formula
    missing: str  # that operator
    outputs: List[TensorArgument]
    positions: Dict[str, str]  # of inputs that hold indices: their `values` in the contract


def parse_tensor(text: str) -> TensorArgument:
    match = _SPEC.match(text)
    if not match or match.group(2) not in DTYPES.values():
        raise TraceError(f'--tensor {text}: write NAME = DTYPE[DIM, ...], as in "x = bf16[rows, cols]"')
    shape = tuple(part.strip() for part in match.group(3).split(",") if part.strip())
    for extent in shape:
        if not _EXTENT.fullmatch(extent):
            raise TraceError(f"--tensor {text}: `{extent}` is neither a dim nor a number nor a product of them")
    return TensorArgument(match.group(1), match.group(2), shape)


def parse_scalar(text: str) -> Tuple[str, float]:
    match = _SCALAR.match(text)
    try:
        if match:
            value = match.group(2)
            return match.group(1), int(value) if re.fullmatch(r"[-+]?\d+", value) else float(value)
    except ValueError:
        pass
    raise TraceError(f'--scalar {text}: write NAME = NUMBER, as in "eps = 1e-6"')


def trace(function: Callable, tensors: Sequence[TensorArgument], scalars: Dict[str, float]) -> Traced:
    """The formula of a function of these tensors and scalars, by name or position."""
    parameters = list(inspect.signature(function).parameters)
    by_name = {tensor.name for tensor in tensors} | set(scalars)
    if not set(parameters) <= by_name and len(parameters) > len(by_name):
        raise TraceError(f"say what `{next(p for p in parameters if p not in by_name)}` is: --tensor or --scalar")
    dims = dims_of(tensors)
    if len(dims) > len(PRIMES[0]):
        raise TraceError(f"there are more than {len(PRIMES[0])} dims")
    first, second = (_translated(function, tensors, scalars, dict(zip(dims, primes))) for primes in PRIMES)
    if first.formula is not None and first != second:
        return first._replace(formula=None, missing="a constant or a branch that depends on the shape")
    return first


def dims_of(tensors: Sequence[TensorArgument]) -> List[str]:
    factors = (f.strip() for tensor in tensors for extent in tensor.shape for f in extent.split("*"))
    return list(dict.fromkeys(f for f in factors if not f.isdigit()))


def _translated(function: Callable, tensors, scalars: Dict[str, float], sizes: Dict[str, int]) -> Traced:
    import torch

    size = lambda extent: math.prod(sizes.get(f.strip()) or int(f) for f in extent.split("*"))  # noqa: E731
    graph, names = _graph(torch, function, tensors, scalars, [[size(e) for e in tensor.shape] for tensor in tensors])
    literals = [size(e) for tensor in tensors for e in tensor.shape if not set(e.replace("*", " ").split()) & set(sizes)]
    made = GraphFormula(torch, Sizes(sizes, literals), [*(t.name for t in tensors), *scalars, *sizes], names)
    inputs = iter(tensors)
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    results = output if isinstance(output, (list, tuple)) else [output]
    try:
        for node in graph.nodes:
            if node.op == "placeholder":
                tensor = next(inputs)
                node.target = tensor.name
                made.values[node] = (lambda name: lambda i: f"{name}[{', '.join(i)}]" if i else name)(tensor.name)
            elif node.op == "call_function":
                made.add(node)
            elif node.op != "output":
                raise Untranslated(f"a constant of the module ({node.target})")
        outputs = [_output(made, result, position, len(results)) for position, result in enumerate(results)]
    except Untranslated as error:
        try:
            outputs = [_argument(made, result, position, len(results)) for position, result in enumerate(results)]
        except Untranslated as size_error:
            raise TraceError(f"{function.__name__} has a result whose shape is not made of the dims: {size_error}") from None
        return Traced(None, str(error), outputs, made.positions)
    return Traced("\n".join(made.statements), "", outputs, made.positions)


def _graph(torch, function: Callable, tensors, scalars: Dict[str, float], shapes: List[List[int]]):
    """What the function does with tensors of these shapes, and which constants of it are scalars."""
    from torch._decomp import get_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    torch_names = {short: long for long, short in DTYPES.items()}
    examples = [torch.zeros(shape, dtype=getattr(torch, torch_names[tensor.dtype]), device="meta")
                for tensor, shape in zip(tensors, shapes)]
    parameters = set(inspect.signature(function).parameters)
    tensor_names = [tensor.name for tensor in tensors]

    def traced_with(numbers):
        def call(*values):
            if {*tensor_names, *numbers} <= parameters:
                return function(**dict(zip(tensor_names, values)), **numbers)
            return function(*values, *numbers.values())

        aten = torch.ops.aten
        table = get_decompositions([getattr(aten, name) for name in DECOMPOSED if hasattr(aten, name)])
        return make_fx(torch.func.functionalize(call), decomposition_table=table, tracing_mode="fake")(*examples).graph

    nudged = {name: value * _NUDGE if isinstance(value, float) else value for name, value in scalars.items()}
    names = {value: name for name, value in nudged.items() if isinstance(value, float) and value != scalars[name]}
    try:
        graph = traced_with(nudged)
        seen = {argument for node in graph.nodes for argument in [*node.args, *node.kwargs.values()] if isinstance(argument, float)}
        if set(names) <= seen:
            return graph, names
        return traced_with(scalars), {}  # computed with before a tensor is: the value counts, not the name
    except Exception as error:  # whatever a user's function raises
        shown = ", ".join(f"{name} {shape}" for name, shape in zip(tensor_names, shapes))
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TraceError(f"{function.__name__} fails with {shown}: {reason}; if an extent has to be a multiple, write it as "
                         'a product: --tensor "x = bf16[n, 4 * c]"') from error


def _argument(made: GraphFormula, result, position: int, count: int) -> TensorArgument:
    value = result.meta["val"]
    name = "y" if count == 1 else f"y{position + 1}"
    while name in made.taken:
        name += "_"
    shape = tuple(made.extent(size) for size in value.shape) or ("1",)
    return TensorArgument(name, DTYPES[str(value.dtype).replace("torch.", "")], shape)


def _output(made: GraphFormula, result, position: int, count: int) -> TensorArgument:
    argument = _argument(made, result, position, count)
    rank = len(result.meta["val"].shape)
    index = made.indices(rank)
    text = made.values[result](index)
    cast = f"{argument.dtype}("
    if text.startswith(cast) and text.endswith(")") and plain(text[len(cast) - 1 :]) != text[len(cast) - 1 :]:
        text = text[len(cast) : -1]  # the store rounds anyway
    left = f"{argument.name}[{', '.join(index) or '0'}]"
    made.statements.append(f"{left} = {plain(text)}")
    made.taken.add(argument.name)
    return argument


def _relative(function: str, output: Optional[str]) -> str:
    file, _, name = function.rpartition(":")
    folder = os.path.dirname(os.path.abspath(output)) if output else os.getcwd()
    return f"{os.path.relpath(file, folder)}:{name}"


def contract_text(function: str, tensors: Sequence[TensorArgument], scalars: Dict[str, float], traced: Traced) -> str:
    """A first contract: the kernel is still to be named."""
    name = function.rpartition(":")[2]
    dims = dims_of(tensors)
    arguments = [t.name for t in tensors] + [t.name for t in traced.outputs] + dims + list(scalars) + ["stream"]
    lines = [f'title = "{name}"', "", "[kernel]", f'source = "{name}.cu"      # the kernel to check', f'entry  = "{name}"',
             "args   = [" + ", ".join(f'"{a}"' for a in arguments) + "]", "", "[dims]"]
    lines += [f"{dim} = {{ min = 1, max = 4096 }}      # what the kernel supports" for dim in dims]
    for tensor, role in [(t, "in") for t in tensors] + [(t, "out") for t in traced.outputs]:
        shape = ", ".join(f'"{extent}"' for extent in tensor.shape)
        lines += ["", f"[tensors.{tensor.name}]", f'dtype = "{tensor.dtype}"', f"shape = [{shape}]"]
        lines += ['role  = "out"'] if role == "out" else []
        lines += [f'values = "{traced.positions[tensor.name]}"'] if tensor.name in traced.positions else []
    for scalar, value in scalars.items():
        lines += ["", f"[scalars.{scalar}]", 'dtype = "' + ("i32" if isinstance(value, int) else "f32") + '"',
                  f"value = {value!r}"]
    lines += ["", "[reference]"]
    if traced.formula is None:
        lines += [f"# `{traced.missing}` has no formula: the function itself is the reference.", f'torch = "{function}"']
    else:
        lines += ['formula = """', *traced.formula.splitlines(), '"""']
    return "\n".join(lines) + "\n"


def in_file(function: str) -> str:
    """FILE.py:FUNCTION of MODULE:FUNCTION, a module that the interpreter finds from here."""
    module, _, name = function.rpartition(":")
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", module) or module.endswith(".py") or os.path.exists(module):
        return function
    sys.path.insert(0, os.getcwd())
    try:
        specification = importlib.util.find_spec(module)
    except ImportError:
        specification = None
    if specification is None or not specification.has_location:
        raise TraceError(f"--from {function}: there is no module `{module}`")
    return f"{os.path.relpath(specification.origin)}:{name}"


def load(path: str) -> Callable:
    file, _, name = path.rpartition(":")
    if not file or not name:
        raise TraceError(f"--from {path}: write FILE.py:FUNCTION or MODULE:FUNCTION")
    if not os.path.exists(file):
        raise TraceError(f"{file}: there is no such file")
    specification = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(pathlib.Path(file).resolve().parent))
    try:
        specification.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise TraceError(f"{file}: there is no module `{error.name}` for {sys.executable}; install it there") from None
    except Exception as error:  # whatever the user's file raises
        raise TraceError(f"{file} cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(getattr(module, name, None)):
        raise TraceError(f"{file} has no function `{name}`")
    return getattr(module, name)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="assay init", allow_abbrev=False)
    parser.add_argument("function")
    parser.add_argument("--tensor", action="append", default=[])
    parser.add_argument("--scalar", action="append", default=[])
    parser.add_argument("--output")
    options = parser.parse_args(arguments)
    try:
        tensors = [parse_tensor(text) for text in options.tensor]
        scalars = dict(parse_scalar(text) for text in options.scalar)
        if not tensors:
            raise TraceError('say what its tensors are: --tensor "x = bf16[rows, cols]"')
        function = in_file(options.function)
        traced = trace(load(function), tensors, scalars)
        text = contract_text(_relative(function, options.output), tensors, scalars, traced)
        if options.output is None:
            print(text, end="")
        else:
            pathlib.Path(options.output).write_text(text)
            print(f"wrote {options.output}; name the kernel in [kernel] and what it supports in [dims], then run "
                  f"`assay check {options.output}`")
    except TraceError as error:
        print(f"assay: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
