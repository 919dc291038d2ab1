"""A contract from a PyTorch function: its operators as a formula, where the language has them.

    assay init --from model.py:rmsnorm --tensor "x = bf16[rows, cols]" --tensor "w = bf16[cols]" --scalar "eps = 1e-6"

The function is traced once on the meta device, with a different prime number for every dim, so that an extent
of a tensor on the way tells which dims it is made of. Each operator becomes a statement or a part of one. What
was stored in a smaller type on the way becomes a cast, which says that a kernel may round there. Where an
operator has no formula, the contract refers to the function itself (`torch = "model.py:rmsnorm"`).
"""

import argparse
import importlib.util
import inspect
import operator
import os
import pathlib
import re
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from assay.contract import DTYPES

_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097)
_REDUCTIONS = ("mean", "sum", "amax", "amin", "prod", "var", "mm", "bmm", "addmm")
_MOVES = ("_to_copy", "clone", "detach", "alias", "contiguous", "lift_fresh_copy", "t", "transpose", "permute", "view",
          "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand", "select", "embedding", "where")
_NUDGE = 1 + 2.0**-40  # of a scalar, while the function is traced: a constant that is just this is the scalar
_SPEC = re.compile(r"^\s*(\w+)\s*=\s*(\w+)\s*\[([^\]]*)\]\s*$")
_SCALAR = re.compile(r"^\s*(\w+)\s*=\s*([-+\w.]+)\s*$")
_INDICES = "ijklmnpqrstuvabcdefgh"


class TraceError(Exception):
    """One line that says what cannot be traced, or what is wrong with the command."""


class TensorArgument(NamedTuple):
    name: str
    dtype: str  # as a contract spells it
    shape: Tuple[str, ...]  # dims and integers


class Traced(NamedTuple):
    """What became of a function."""

    formula: Optional[str]  # None: an operator has no formula
    missing: str  # that operator
    outputs: List[TensorArgument]


def parse_tensor(text: str) -> TensorArgument:
    match = _SPEC.match(text)
    if not match or match.group(2) not in DTYPES.values():
        raise TraceError(f'--tensor {text}: write NAME = DTYPE[DIM, ...], as in "x = bf16[rows, cols]"')
    shape = tuple(part.strip() for part in match.group(3).split(",") if part.strip())
    for extent in shape:
        if not re.fullmatch(r"\d+|[A-Za-z_]\w*", extent):
            raise TraceError(f"--tensor {text}: `{extent}` is neither a dim nor a number")
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


class _Untranslated(Exception):
    pass


class _Graph:
    """Statements of a formula from the nodes of a traced graph."""

    def __init__(self, torch, sizes: Dict[str, int], taken: Sequence[str], scalars: Dict[float, str]):
        self.torch, self.sizes, self.scalars = torch, sizes, scalars
        self.taken = set(taken)
        self.statements: List[str] = []
        # Of a node: from index expressions to text. Whether it is worth a name, the number of its uses says.
        self.values: Dict[Any, Callable[[Sequence[str]], str]] = {}
        self.normalised: Dict[Any, Callable[[Sequence[str]], str]] = {}  # of operators with several results, the first
        self.bound = 0

    def extent(self, size: int) -> str:
        """The dims that an extent is made of."""
        rest, parts = size, []
        for dim, prime in self.sizes.items():
            while rest % prime == 0 and rest > 0:
                parts.append(dim)
                rest //= prime
        return " * ".join(([str(rest)] if rest != 1 or not parts else []) + parts)

    def fresh(self) -> str:
        self.bound += 1
        while f"k{self.bound}" in self.taken:
            self.bound += 1
        return f"k{self.bound}"

    def indices(self, count: int) -> List[str]:
        return [letter for letter in _INDICES if letter not in self.taken][:count]

    def at(self, value: Any, index: Sequence[str], shape: Sequence[int]) -> str:
        """An operand's element, broadcast to a result of this shape."""
        if not isinstance(value, self.torch.fx.Node):
            return self.scalars.get(value) or _number(value)
        own = tuple(value.meta["val"].shape)
        index = list(index)[len(index) - len(own) :] if own else []
        return self.values[value]([("0" if size == 1 and full != 1 else i)
                                   for i, size, full in zip(index, own, list(shape)[len(shape) - len(own) :])])

    def reduced(self, word: str, node, value, dims: Sequence[int], keep: bool) -> None:
        own = tuple(value.meta["val"].shape)
        dims = sorted(d % len(own) for d in dims) if dims else list(range(len(own)))

        def element(index: Sequence[str]) -> str:
            index, names, full = list(index), [], []
            for d, size in enumerate(own):
                if d in dims:
                    names.append(self.fresh())
                    full.append(names[-1])
                    if keep:
                        index.pop(0)
                else:
                    full.append(index.pop(0))
            ranges = [f"{name} in 0..{self.extent(own[d])}" for name, d in zip(names, dims)]
            return f"{word}[{', '.join(ranges)}]({_plain(self.values[value](full))})"

        self.values[node] = element

    def add(self, node) -> None:
        """The value of one call of an operator."""
        if not node.users:
            return
        if node.target is operator.getitem:
            if node.args[0] not in self.normalised or node.args[1] != 0:
                raise _Untranslated(str(node.args[0].target))
            self.values[node] = self.normalised[node.args[0]]
            return
        name = node.target._schema.name.split("::")[1] if hasattr(node.target, "_schema") else str(node.target)
        if name == "native_layer_norm":
            self.normalised[node] = self.layer_norm(*node.args)
            return
        shape = tuple(node.meta["val"].shape) if hasattr(node.meta.get("val"), "shape") else ()
        args, kwargs = node.args, node.kwargs
        of = lambda position: lambda index: self.at(args[position], index, shape)  # noqa: E731
        function = _FUNCTIONS.get(name)
        sign = _SIGNS.get(name)
        if name in ("mean", "sum", "amax", "amin", "prod"):
            word = {"amax": "max", "amin": "min"}.get(name, name)
            dims = args[1] if len(args) > 1 else []
            dims = [dims] if isinstance(dims, int) else dims
            self.reduced(word, node, args[0], dims or [], bool(args[2]) if len(args) > 2 else False)
        elif name == "var":
            self.variance(node, args, kwargs)
        elif name in ("add", "sub") and len(args) == 2:
            factor = kwargs.get("alpha", 1)
            scale = "" if factor == 1 else f"{_number(factor)} * "
            self.values[node] = lambda i: f"({of(0)(i)} {sign} {scale}{of(1)(i)})"
        elif sign and len(args) == 2 and not kwargs.get("rounding_mode"):
            self.values[node] = lambda i: f"({of(0)(i)} {sign} {of(1)(i)})"
        elif name == "pow":
            self.values[node] = lambda i: f"({of(0)(i)})^{_bracketed(of(1)(i))}"
        elif name == "rsub":
            self.values[node] = lambda i: f"({of(1)(i)} - {of(0)(i)})"
        elif name == "neg":
            self.values[node] = lambda i: f"(-{of(0)(i)})"
        elif name == "reciprocal":
            self.values[node] = lambda i: f"(1 / {of(0)(i)})"
        elif name == "gelu":
            self.values[node] = _gelu(of(0), kwargs.get("approximate", "none"))
        elif name in ("maximum", "minimum"):
            self.values[node] = lambda i: f"{name[:3]}({of(0)(i)}, {of(1)(i)})"
        elif name in ("clamp", "clamp_min", "clamp_max"):
            low = kwargs.get("min", args[1] if len(args) > 1 and name != "clamp_max" else None)
            high = kwargs.get("max", args[2] if len(args) > 2 else args[1] if name == "clamp_max" else None)
            self.values[node] = lambda i: _clamped(of(0)(i), low, high)
        elif name == "where":
            self.values[node] = lambda i: f"(if {of(0)(i)} then {of(1)(i)} else {of(2)(i)})"
        elif function:
            self.values[node] = lambda i: f"{function}({_plain(of(0)(i))})"
        elif name in ("_to_copy", "clone", "detach", "alias", "contiguous", "lift_fresh_copy"):
            self.values[node] = self.copied(node, of(0))
        elif name in ("mm", "bmm"):
            inner = args[0].meta["val"].shape[-1]
            self.values[node] = lambda i: self.product(args[0], args[1], i, inner)
        elif name == "addmm" and not kwargs:
            inner = args[1].meta["val"].shape[-1]
            self.values[node] = lambda i: f"({of(0)(i)} + {self.product(args[1], args[2], i, inner)})"
        elif name in ("t", "transpose", "permute"):
            self.values[node] = self.permuted(name, args)
        elif name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand"):
            self.values[node] = self.viewed(args[0], shape, name == "expand")
        elif name in ("_softmax", "_log_softmax"):
            self.softmax(node, args[0], args[1] % len(shape), name == "_log_softmax")
        elif name == "embedding":
            rank = len(args[1].meta["val"].shape)
            self.values[node] = lambda i: self.values[args[0]]([self.values[args[1]](i[:rank]), *i[rank:]])
        elif name == "select" and isinstance(args[2], int) and args[2] >= 0:
            self.values[node] = lambda i: self.values[args[0]]([*i[: args[1]], str(args[2]), *i[args[1] :]])
        else:
            raise _Untranslated(name)
        dtype = node.meta["val"].dtype if hasattr(node.meta.get("val"), "dtype") else None
        if dtype in (self.torch.bfloat16, self.torch.float16) and name not in _MOVES:
            exact, cast = self.values[node], DTYPES[str(dtype).replace("torch.", "")]
            self.values[node] = lambda i: f"{cast}({_plain(exact(i))})"  # torch stores it
        users = list(node.users)
        last = len(users) == 1 and users[0].op == "output"
        if len(users) > 1 or (name in _REDUCTIONS and not last):
            self.named(node, shape)

    def named(self, node, shape: Sequence[int]) -> None:
        """A statement of its own: what is used twice, and sums."""
        if not shape:
            name = self.new_name()
            self.statements.append(f"{name} = {_plain(self.values[node]([]))}")
            self.values[node] = lambda i: name
            return
        index = self.indices(len(shape))
        if re.fullmatch(r"\w+\[[\w, ]*\]", self.values[node](index)):
            return  # an element has a name already
        name = self.new_name()
        left = ", ".join(f"{i} in 0..{self.extent(size)}" for i, size in zip(index, shape))
        self.statements.append(f"{name}[{left}] = {_plain(self.values[node](index))}")
        self.values[node] = lambda i: f"{name}[{', '.join(i)}]"

    def variance(self, node, args, kwargs) -> None:
        value, correction = args[0], kwargs.get("correction", 1)
        own = tuple(value.meta["val"].shape)
        dims = [d % len(own) for d in (args[1] if len(args) > 1 and args[1] else range(len(own)))]
        keep = bool(kwargs.get("keepdim", False))
        self.named(value, own)
        count = " * ".join(self.extent(own[d]) for d in dims)

        def element(index: Sequence[str]) -> str:
            index, full, mean, names, others = list(index), [], [], [], []
            for d in range(len(own)):
                if d not in dims:
                    full.append(index.pop(0))
                    mean.append(full[-1])
                    continue
                if keep:
                    index.pop(0)
                names.append(self.fresh())
                others.append(self.fresh())
                full.append(names[-1])
                mean.append(others[-1])
            of = lambda which: ", ".join(f"{n} in 0..{self.extent(own[d])}" for n, d in zip(which, dims))  # noqa: E731
            centre = f"mean[{of(others)}]({self.values[value](mean)})"
            total = f"sum[{of(names)}](({self.values[value](full)} - {centre})^2)"
            return f"({total} / ({count}{f' - {correction}' if correction else ''}))"

        self.values[node] = element

    def layer_norm(self, value, normalised, weight, bias, eps):
        own = tuple(value.meta["val"].shape)
        rows = len(own) - len(normalised)
        self.named(value, own)
        index = self.indices(rows)
        mean, variance = self.new_name(), self.new_name()
        left = ", ".join(f"{i} in 0..{self.extent(size)}" for i, size in zip(index, own))
        inner = [self.fresh() for _ in normalised]
        over = ", ".join(f"{k} in 0..{self.extent(size)}" for k, size in zip(inner, own[rows:]))
        at = lambda tensor, i: f"{tensor}[{', '.join(i)}]" if rows else tensor  # noqa: E731
        term = self.values[value]([*index, *inner])
        head = lambda tensor: f"{tensor}[{left}]" if rows else tensor  # noqa: E731
        self.statements.append(f"{head(mean)} = mean[{over}]({term})")
        self.statements.append(f"{head(variance)} = mean[{over}](({term} - {at(mean, index)})^2)")

        def element(i: Sequence[str]) -> str:
            text = (f"({self.values[value](i)} - {at(mean, i[:rows])}) * "
                    f"rsqrt({at(variance, i[:rows])} + {self.scalars.get(eps) or _number(eps)})")
            text += f" * {self.values[weight](i[rows:])}" if weight is not None else ""
            text += f" + {self.values[bias](i[rows:])}" if bias is not None else ""
            return f"({text})"

        return element

    def new_name(self) -> str:
        number = 1
        while f"t{number}" in self.taken:
            number += 1
        self.taken.add(f"t{number}")
        return f"t{number}"

    def copied(self, node, operand):
        before, after = node.args[0].meta["val"].dtype, node.meta["val"].dtype
        if before == after or (before.is_floating_point and after.is_floating_point
                               and after.itemsize >= before.itemsize and after != self.torch.float16):
            return operand
        cast = DTYPES.get(str(after).replace("torch.", ""))
        if cast is None:
            raise _Untranslated(f"a conversion to {after}")
        return lambda i: f"{cast}({_plain(operand(i))})"

    def product(self, a, b, index: Sequence[str], inner: int) -> str:
        k = self.fresh()
        first, last = list(index[:-2]), list(index[-2:])
        return (f"sum[{k} in 0..{self.extent(inner)}]({self.values[a]([*first, last[0], k])} * "
                f"{self.values[b]([*first, k, last[1]])})")

    def permuted(self, name: str, args):
        rank = len(args[0].meta["val"].shape)
        order = list(range(rank))
        if name == "t":
            order.reverse()
        elif name == "transpose":
            a, b = args[1] % rank, args[2] % rank
            order[a], order[b] = order[b], order[a]
        else:
            order = [d % rank for d in args[1]]
        return lambda i: self.values[args[0]]([i[order.index(d)] for d in range(rank)])

    def viewed(self, value, shape: Sequence[int], expands: bool):
        own = tuple(value.meta["val"].shape)
        if expands:
            return lambda i: self.at(value, i, shape)
        kept = [d for d, size in enumerate(shape) if size != 1]
        if [shape[d] for d in kept] == [size for size in own if size != 1]:  # ones come and go

            def element(index: Sequence[str]) -> str:
                rest = [index[d] for d in kept]
                return self.values[value](["0" if size == 1 else rest.pop(0) for size in own])

            return element

        def flat(index: Sequence[str]) -> str:
            linear = "0"
            for i, size in zip(index, shape):
                linear = i if linear == "0" else f"({linear}) * ({self.extent(size)}) + {i}"
            parts, step = [], 1
            for d in range(len(own) - 1, -1, -1):
                part = linear if step == 1 else f"({linear}) / ({self.extent(step)})"
                parts.insert(0, part if d == 0 else f"({part}) % ({self.extent(own[d])})")
                step *= own[d]
            return self.values[value](parts)

        return flat

    def softmax(self, node, value, dim: int, logarithm: bool) -> None:
        size = value.meta["val"].shape[dim]
        self.named(value, tuple(value.meta["val"].shape))

        def element(index: Sequence[str]) -> str:
            k = self.fresh()
            other = self.values[value]([*index[:dim], k, *index[dim + 1 :]])
            total = f"sum[{k} in 0..{self.extent(size)}](exp({other}))"
            own = self.values[value](index)
            return f"({own} - log({total}))" if logarithm else f"exp({own}) / {total}"

        self.values[node] = element


_FUNCTIONS = {name: name for name in ("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "erf", "erfc", "sigmoid",
                                      "sin", "cos", "abs", "floor", "ceil", "sign", "silu", "relu", "exp2", "log2",
                                      "softplus")}
_FUNCTIONS["logical_not"] = "not "
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
          "ne": "!=", "logical_and": "and", "logical_or": "or"}


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        text = {float("inf"): "inf", float("-inf"): "(-inf)"}.get(value, repr(value))
        return f"({text})" if text.startswith("-") else text
    raise _Untranslated(f"a constant {value!r}")


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+", text) or text.startswith("(") else f"({text})"


def _plain(text: str) -> str:
    """Without brackets around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def _clamped(text: str, low: Optional[float], high: Optional[float]) -> str:
    text = _plain(text)
    if low is not None:
        text = f"max({text}, {_number(low)})"
    return text if high is None else f"min({text}, {_number(high)})"


def _gelu(operand, approximate: str):
    if approximate == "tanh":
        return lambda i: (f"(0.5 * {operand(i)} * (1 + tanh(0.7978845608028654 * ({operand(i)} + 0.044715 * "
                          f"({operand(i)})^3))))")
    return lambda i: f"(0.5 * {operand(i)} * (1 + erf({operand(i)} / sqrt(2))))"


def trace(function: Callable, tensors: Sequence[TensorArgument], scalars: Dict[str, float]) -> Traced:
    """The formula of a function of these tensors and scalars, by name or position."""
    import torch
    from torch._decomp import get_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    dims = list(dict.fromkeys(e for tensor in tensors for e in tensor.shape if not e.isdigit()))
    if len(dims) > len(_PRIMES):
        raise TraceError(f"there are more than {len(_PRIMES)} dims")
    sizes = dict(zip(dims, _PRIMES))
    torch_names = {short: long for long, short in DTYPES.items()}
    examples = [torch.zeros([sizes.get(e) or int(e) for e in tensor.shape],
                            dtype=getattr(torch, torch_names[tensor.dtype]), device="meta") for tensor in tensors]
    parameters = list(inspect.signature(function).parameters)
    by_name = {tensor.name for tensor in tensors} | set(scalars)
    if not set(parameters) <= by_name and len(parameters) > len(by_name):
        raise TraceError(f"say what `{next(p for p in parameters if p not in by_name)}` is: --tensor or --scalar")

    def caller(numbers):
        def call(*values):
            if by_name <= set(parameters):
                return function(**dict(zip((tensor.name for tensor in tensors), values)), **numbers)
            return function(*values, *numbers.values())

        return call

    aten = torch.ops.aten
    table = get_decompositions([aten.linear, aten.addcmul, aten.addcdiv, aten.matmul])
    nudged = {name: value * _NUDGE if isinstance(value, float) else value for name, value in scalars.items()}
    names = {value: name for name, value in nudged.items() if isinstance(value, float) and value != scalars[name]}
    try:
        graph = make_fx(caller(nudged), decomposition_table=table, tracing_mode="fake")(*examples).graph
        seen = {argument for node in graph.nodes for argument in node.args if isinstance(argument, float)}
        if not set(names) <= seen:  # computed with before a tensor is: the value counts, not the name
            names = {}
            graph = make_fx(caller(scalars), decomposition_table=table, tracing_mode="fake")(*examples).graph
    except Exception as error:  # whatever a user's function raises
        raise TraceError(f"{function.__name__} fails with these shapes: {str(error).splitlines()[0]}") from error
    made = _Graph(torch, sizes, [*by_name, *dims], names)
    inputs = iter(tensors)
    outputs: List[TensorArgument] = []
    try:
        for node in graph.nodes:
            if node.op == "placeholder":
                tensor = next(inputs)
                made.values[node] = (lambda name: lambda i: f"{name}[{', '.join(i)}]" if i else name)(tensor.name)
            elif node.op == "call_function":
                made.add(node)
            elif node.op == "output":
                results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
                for position, result in enumerate(results):
                    outputs.append(_output(made, result, position, len(results), torch))
            else:
                raise _Untranslated(f"a constant of the module ({node.target})")
    except _Untranslated as error:
        return Traced(None, str(error), _shapes_of(graph, made, torch))
    return Traced("\n".join(made.statements), "", outputs)


def _shapes_of(graph, made: _Graph, torch) -> List[TensorArgument]:
    node = next(node for node in graph.nodes if node.op == "output")
    results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
    return [_argument(made, result, position, len(results)) for position, result in enumerate(results)]


def _argument(made: _Graph, result, position: int, count: int) -> TensorArgument:
    value = result.meta["val"]
    name = "y" if count == 1 else f"y{position + 1}"
    while name in made.taken:
        name += "_"
    shape = tuple(made.extent(size) for size in value.shape) or ("1",)
    return TensorArgument(name, DTYPES[str(value.dtype).replace("torch.", "")], shape)


def _output(made: _Graph, result, position: int, count: int, torch) -> TensorArgument:
    argument = _argument(made, result, position, count)
    rank = len(result.meta["val"].shape)
    index = made.indices(rank)
    text = made.values[result](index)
    cast = f"{argument.dtype}("
    if text.startswith(cast) and text.endswith(")") and _plain(text[len(cast) - 1 :]) != text[len(cast) - 1 :]:
        text = text[len(cast) : -1]  # the store rounds anyway
    left = f"{argument.name}[{', '.join(index) or '0'}]"
    made.statements.append(f"{left} = {_plain(text)}")
    made.taken.add(argument.name)
    return argument


def _relative(function: str, output: Optional[str]) -> str:
    file, _, name = function.rpartition(":")
    folder = os.path.dirname(os.path.abspath(output)) if output else os.getcwd()
    return f"{os.path.relpath(file, folder)}:{name}"


def contract_text(function: str, tensors: Sequence[TensorArgument], scalars: Dict[str, float], traced: Traced) -> str:
    """A first contract: the kernel is still to be named."""
    name = function.rpartition(":")[2]
    dims = list(dict.fromkeys(e for tensor in tensors for e in tensor.shape if not e.isdigit()))
    arguments = [t.name for t in tensors] + [t.name for t in traced.outputs] + dims + list(scalars) + ["stream"]
    lines = [f'title = "{name}"', "", "[kernel]", f'source = "{name}.cu"      # the kernel to check', f'entry  = "{name}"',
             "args   = [" + ", ".join(f'"{a}"' for a in arguments) + "]", "", "[dims]"]
    lines += [f"{dim} = {{ min = 1, max = 4096 }}      # what the kernel supports" for dim in dims]
    for tensor, role in [(t, "in") for t in tensors] + [(t, "out") for t in traced.outputs]:
        shape = ", ".join(f'"{extent}"' for extent in tensor.shape)
        lines += ["", f"[tensors.{tensor.name}]", f'dtype = "{tensor.dtype}"', f"shape = [{shape}]"]
        lines += ['role  = "out"'] if role == "out" else []
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
