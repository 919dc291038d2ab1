"""Statements of a formula from a traced graph of PyTorch operators.

Each node of the graph becomes a function from index expressions to the text of its element at those indices, so that
moves (views, slices, transpositions) cost nothing and only what is used twice, and sums, get a name of their own.
Sizes and constants are text as well: the graph was traced with a different prime number for every dim, and `Sizes`
tells which dims an extent is made of. What it cannot tell, and an operator that the table below does not have, raise
`Untranslated`.
"""

import math
import operator
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from assay.contract import DTYPES

Element = Callable[[Sequence[str]], str]

# Of dims, while a function is traced. They are far apart, and no two pairs of them have the same sum, so that N - 1 and
# N + K are recognised, too. Two lists: a constant or a branch that comes from a shape and is not recognised differs
# between them, as do the remainders of a dim by 3, 4 and 5.
PRIMES = (
    (1009, 1151, 1283, 1423, 1559, 1693, 1847, 1993, 2131, 2287, 2437, 2609, 2753, 2917, 3079, 3257),
    (1031, 1213, 1381, 1601, 1741, 1907, 2053, 2207, 2357, 2549, 2711, 2887, 3019, 3203, 3461, 3631),
)
LARGEST_FACTOR = 256  # a size this many times a dim is that product, not a sum
LARGEST_OFFSET = 64  # N - 1, N + 2; less than half the distance of two primes
_INDICES = "ijklmnpqrstuvabcdefgh"


class Untranslated(Exception):
    """What the formula language, or this module, has no words for."""


class Sizes:
    """The dims that extents and constants are made of."""

    def __init__(self, dims: Dict[str, int], literals: Sequence[int]):
        self.dims, self.literals = dims, set(literals)
        products = {size: dim for dim, size in dims.items()}
        products.update({a * b: f"{m} * {n}" for m, a in dims.items() for n, b in dims.items() if m <= n})
        self.constants: List[Tuple[float, str]] = []
        for size, text in products.items():
            self.constants += [(size**0.5, f"sqrt({text})"), (size**-0.5, f"rsqrt({text})"), (size, text),
                               (1 / size, f"1 / ({text})"), (size**0.25, f"sqrt(sqrt({text}))"),
                               (size**-0.25, f"rsqrt(sqrt({text}))")]

    def extent(self, size: int) -> str:
        """An extent, or the position of an element."""
        rest, parts = size, []
        for dim, prime in self.dims.items():
            while rest % prime == 0 and rest > 0:
                parts.append(dim)
                rest //= prime
        if rest == 1 and parts:
            return " * ".join(parts)
        return " * ".join([self._factor(rest, bool(parts)), *parts])

    def _factor(self, rest: int, of_product: bool) -> str:
        """What is left of an extent when the dims that divide it are taken out."""
        if rest <= LARGEST_FACTOR or rest in self.literals:
            return str(rest)
        for dim, prime in self.dims.items():
            offset = rest - prime
            if abs(offset) <= LARGEST_OFFSET:
                text = f"{dim} {'+' if offset > 0 else '-'} {abs(offset)}"
                return f"({text})" if of_product else text
        for at, (dim, prime) in enumerate(self.dims.items()):
            for other, size in list(self.dims.items())[at:]:
                if prime + size == rest:
                    return f"({dim} + {other})" if of_product else f"{dim} + {other}"
        if any(literal % rest == 0 or rest % literal == 0 for literal in self.literals if literal > LARGEST_OFFSET):
            return str(rest)
        raise Untranslated(f"a size of {rest}")

    def constant(self, value: Any) -> Optional[str]:
        """A number that the function computed from a shape, such as 1 / sqrt(d)."""
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            for known, text in self.constants:
                for sign in ("", "-"):
                    if math.isclose(value, -known if sign else known, rel_tol=1e-12):
                        return f"({sign}{text})" if sign or not re.fullmatch(r"\w+(\(.*\))?", text) else text
        return None


@dataclass(frozen=True)
class Call:
    """A node of the graph, with its operator's arguments by name."""

    node: Any
    args: Dict[str, Any]
    shape: Tuple[int, ...]  # of its result, or its first one

    def __getitem__(self, name: str) -> Any:
        return self.args[name]


class Operator(NamedTuple):
    make: Callable[["GraphFormula", Call], Union[Element, Sequence[Element]]]
    moves: bool = False  # computes nothing that would be rounded
    sums: bool = False  # is worth a name of its own


class GraphFormula:
    """The statements so far, and what each node of the graph is."""

    def __init__(self, torch, sizes: Sizes, taken: Sequence[str], scalars: Dict[float, str]):
        self.torch, self.sizes, self.scalars = torch, sizes, scalars
        self.taken = set(taken)
        self.statements: List[str] = []
        self.values: Dict[Any, Element] = {}
        self.several: Dict[Any, Sequence[Element]] = {}  # of operators with several results
        self.positions: Dict[str, str] = {}  # of inputs that hold indices: what a contract says of their values
        self.bound = 0

    def extent(self, size: int) -> str:
        return self.sizes.extent(size)

    def fresh(self) -> str:
        self.bound += 1
        while f"k{self.bound}" in self.taken:
            self.bound += 1
        return f"k{self.bound}"

    def new_name(self) -> str:
        number = 1
        while f"t{number}" in self.taken:
            number += 1
        self.taken.add(f"t{number}")
        return f"t{number}"

    def indices(self, count: int) -> List[str]:
        return [letter for letter in _INDICES if letter not in self.taken][:count]

    def number(self, value: Any) -> str:
        return self.scalars.get(value) or self.sizes.constant(value) or number(value)

    def at(self, value: Any, index: Sequence[str], shape: Sequence[int]) -> str:
        """An operand's element, broadcast to a result of this shape."""
        if not isinstance(value, self.torch.fx.Node):
            return self.number(value)
        own = tuple(value.meta["val"].shape)
        index = list(index)[len(index) - len(own) :] if own else []
        return self.values[value]([("0" if size == 1 and full != 1 else i)
                                   for i, size, full in zip(index, own, list(shape)[len(shape) - len(own) :])])

    def add(self, node) -> None:
        """The value of one call of an operator."""
        if not node.users:
            return
        if node.target is operator.getitem:
            results = self.several.get(node.args[0])
            if results is None or node.args[1] >= len(results):
                raise Untranslated(_name(node.args[0]))
            self.values[node] = results[node.args[1]]
            return
        name = _name(node)
        if name.endswith("_") and list(node.args[0].users) == [node]:
            name = name[:-1]  # in place, of what nobody else sees
        found = OPERATORS.get(name)
        if found is None:
            raise Untranslated(name)
        result = node.meta.get("val")
        first = result[0] if isinstance(result, (list, tuple)) else result
        shape = tuple(first.shape) if hasattr(first, "shape") else ()
        made = found.make(self, Call(node, _arguments(node), shape))
        if not callable(made):
            self.several[node] = made
            return
        self.values[node] = made if found.moves else self.stored(made, getattr(first, "dtype", None))
        users = list(node.users)
        last = len(users) == 1 and users[0].op == "output"
        if len(users) > 1 or (found.sums and not last):
            self.named(node, shape)

    def stored(self, exact: Element, dtype) -> Element:
        """As torch keeps it in memory: in a small type, a kernel may round there as well."""
        if dtype not in (self.torch.bfloat16, self.torch.float16):
            return exact
        cast = DTYPES[str(dtype).replace("torch.", "")]
        return lambda i: f"{cast}({plain(exact(i))})"

    def named(self, node, shape: Sequence[int]) -> None:
        """A statement of its own: what is used twice, and sums."""
        if not shape:
            name = self.new_name()
            self.statements.append(f"{name} = {plain(self.values[node]([]))}")
            self.values[node] = lambda i: name
            return
        index = self.indices(len(shape))
        if re.fullmatch(r"\w+\[[\w, ]*\]", self.values[node](index)):
            return  # an element has a name already
        name = self.new_name()
        left = ", ".join(f"{i} in 0..{self.extent(size)}" for i, size in zip(index, shape))
        self.statements.append(f"{name}[{left}] = {plain(self.values[node](index))}")
        self.values[node] = lambda i: f"{name}[{', '.join(i)}]"

    def holds_indices(self, node, size: int, word: str = "index") -> None:
        """Whatever this input is used for besides: its elements lie below `size`."""
        while node.op == "call_function" and _name(node) in OPERATORS and OPERATORS[_name(node)].moves:
            node = node.args[0]
        if node.op == "placeholder":
            self.positions[str(node.target)] = f"{word}({self.extent(size)})"

    def ranges(self, names: Sequence[str], sizes: Sequence[int]) -> str:
        return ", ".join(f"{name} in 0..{self.extent(size)}" for name, size in zip(names, sizes))


def _name(node) -> str:
    return node.target._schema.name.split("::")[1] if hasattr(node.target, "_schema") else str(node.target)


def _arguments(node) -> Dict[str, Any]:
    if not hasattr(node.target, "_schema"):
        return {}
    named = {}
    for position, argument in enumerate(node.target._schema.arguments):
        given = position < len(node.args)
        named[argument.name] = node.args[position] if given else node.kwargs.get(
            argument.name, argument.default_value if argument.has_default_value() else None)
    return named


def number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        text = {float("inf"): "inf", float("-inf"): "(-inf)"}.get(value, repr(value))
        return f"({text})" if text.startswith("-") else text
    raise Untranslated(f"a constant {value!r}")


def plain(text: str) -> str:
    """Without brackets around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+", text) or plain(text) != text else f"({text})"


def _plus(index: str, offset: str) -> str:
    return index if offset == "0" else f"{index} + {offset}"


# --- Element by element


def _operand(graph: GraphFormula, call: Call, name: str = "self") -> Element:
    return lambda i: graph.at(call[name], i, call.shape)


def _function(word: str):
    def make(graph, call):
        return lambda i: f"{word}({plain(_operand(graph, call)(i))})"

    return Operator(make)


def _sign(sign: str):
    def make(graph, call):
        if call.args.get("rounding_mode"):
            raise Untranslated(f"a division that rounds ({call['rounding_mode']})")
        factor = call.args.get("alpha", 1)
        scale = "" if factor == 1 else f"{graph.number(factor)} * "
        return lambda i: f"({_operand(graph, call)(i)} {sign} {scale}{_operand(graph, call, 'other')(i)})"

    return Operator(make)


def _text(template: Callable[..., str], *names: str):
    """An operator that is a text of its operands and of the numbers among its arguments."""

    def make(graph, call):
        return lambda i: template(*(_operand(graph, call, name)(i) for name in names))

    return Operator(make)


def _softplus(graph, call):
    beta = call["beta"]
    if beta == 1:
        return lambda i: f"softplus({plain(_operand(graph, call)(i))})"
    scale = graph.number(beta)
    return lambda i: f"(softplus({scale} * {_operand(graph, call)(i)}) / {scale})"


def _gelu(graph, call):
    x = _operand(graph, call)
    if call["approximate"] == "tanh":
        return lambda i: f"(0.5 * {x(i)} * (1 + tanh(0.7978845608028654 * ({x(i)} + 0.044715 * ({x(i)})^3))))"
    return lambda i: f"(0.5 * {x(i)} * (1 + erf({x(i)} / sqrt(2))))"


def _clamp(graph, call):
    def element(i):
        text = plain(_operand(graph, call)(i))
        if call.args.get("min") is not None:
            text = f"max({text}, {_operand(graph, call, 'min')(i)})"
        return text if call.args.get("max") is None else f"min({text}, {_operand(graph, call, 'max')(i)})"

    return element


def _round(graph, call):
    if call.args.get("decimals"):
        raise Untranslated("a rounding to decimals")
    return lambda i: f"round({plain(_operand(graph, call)(i))})"


def _copy(graph, call):
    before, after = call["self"].meta["val"].dtype, call.node.meta["val"].dtype
    operand = _operand(graph, call)
    if before == after or (before.is_floating_point and after.is_floating_point
                           and after.itemsize >= before.itemsize and after != graph.torch.float16):
        return operand
    cast = DTYPES.get(str(after).replace("torch.", ""))
    if cast is None:
        raise Untranslated(f"a conversion to {after}")
    return lambda i: f"{cast}({plain(operand(i))})"


def _filled(value_of: Callable[[Call], Any]):
    def make(graph, call):
        value = value_of(call)
        if call.node.meta["val"].dtype == graph.torch.bool:
            value = bool(value)
        return lambda i: graph.number(value)

    return Operator(make, moves=True)


def _arange(graph, call):
    start, step = call.args.get("start") or 0, call.args.get("step", 1)

    def element(i):
        text = i[0] if step == 1 else f"{graph.number(step)} * {i[0]}"
        return text if start == 0 else f"({text} + {graph.number(start)})"

    return element


def _triangle(sign: str):
    def make(graph, call):
        diagonal = call["diagonal"]
        zero = "false" if call.node.meta["val"].dtype == graph.torch.bool else "0"
        shift = "" if diagonal == 0 else f" {'+' if diagonal > 0 else '-'} {graph.number(abs(diagonal))}"
        return lambda i: f"(if {i[-1]} {sign} {i[-2]}{shift} then {_operand(graph, call)(i)} else {zero})"

    return Operator(make, moves=True)


# --- Sums and the like


def _axes(value, dims) -> List[int]:
    rank = len(value.meta["val"].shape)
    dims = [dims] if isinstance(dims, int) else dims
    return sorted(d % rank for d in dims) if dims else list(range(rank))


def _split_index(index: Sequence[str], rank: int, axes: Sequence[int], keep: bool) -> List[Optional[str]]:
    """The result's indices at the operand's places; None where the reduction runs."""
    rest, full = list(index), []
    for d in range(rank):
        if d not in axes:
            full.append(rest.pop(0))
            continue
        full.append(None)
        if keep:
            rest.pop(0)
    return full


def _filled_in(full: Sequence[Optional[str]], names: Sequence[str]) -> List[str]:
    rest = list(names)
    return [rest.pop(0) if i is None else i for i in full]


def _reduced(graph: GraphFormula, call: Call, word: str, of: Callable[[str], str] = plain) -> Element:
    value = call["self"]
    own = tuple(value.meta["val"].shape)
    axes, keep = _axes(value, call.args.get("dim")), bool(call.args.get("keepdim"))

    def element(index):
        names = [graph.fresh() for _ in axes]
        text = graph.values[value](_filled_in(_split_index(index, len(own), axes, keep), names))
        return f"{word}[{graph.ranges(names, [own[d] for d in axes])}]({of(text)})"

    return element


def _reduction(word: str):
    return Operator(lambda graph, call: _reduced(graph, call, word), sums=True)


def _position(word: str):
    def make(graph, call):
        if call["dim"] is None and len(call["self"].meta["val"].shape) != 1:
            raise Untranslated(f"{word} of all elements")
        return _reduced(graph, call, word)

    return Operator(make, sums=True)


def _variance_of(graph: GraphFormula, call: Call) -> Element:
    value = call["self"]
    own = tuple(value.meta["val"].shape)
    axes, keep = _axes(value, call["dim"]), bool(call["keepdim"])
    correction = 1 if call["correction"] is None else call["correction"]
    graph.named(value, own)
    count = " * ".join(_bracketed(graph.extent(own[d])) for d in axes)

    def element(index):
        names, others = [graph.fresh() for _ in axes], [graph.fresh() for _ in axes]
        full, sizes = _split_index(index, len(own), axes, keep), [own[d] for d in axes]
        at = lambda which: graph.values[value](_filled_in(full, which))  # noqa: E731
        centre = f"mean[{graph.ranges(others, sizes)}]({at(others)})"
        total = f"sum[{graph.ranges(names, sizes)}](({at(names)} - {centre})^2)"
        return f"({total} / ({count}{f' - {correction}' if correction else ''}))"

    return element


def _deviation(graph, call):
    variance = _variance_of(graph, call)
    return lambda i: f"sqrt({plain(variance(i))})"


def _variance_and_mean(graph, call):
    dtype = call.node.meta["val"][0].dtype
    return [graph.stored(_variance_of(graph, call), dtype), graph.stored(_reduced(graph, call, "mean"), dtype)]


def _largest_and_position(graph, call):
    return [_reduced(graph, call, "max"), _reduced(graph, call, "argmax")]


def _log_sum_exp(graph, call):
    total = _reduced(graph, call, "sum", lambda text: f"exp({plain(text)})")
    return lambda i: f"log({total(i)})"


def _norm(graph, call):
    if call["ord"] not in (None, 2):
        raise Untranslated(f"a norm of order {call['ord']}")
    total = _reduced(graph, call, "sum", lambda text: f"{_bracketed(plain(text))}^2")
    return lambda i: f"sqrt({total(i)})"


def _running(word: str):
    def make(graph, call):
        axis = call["dim"] % len(call.shape)

        def element(index):
            k = graph.fresh()
            other = graph.values[call["self"]]([*index[:axis], k, *index[axis + 1 :]])
            return f"{word}[{k} in 0..{index[axis]} + 1]({plain(other)})"

        return element

    return Operator(make, sums=True)


def _softmax(logarithm: bool, safe: bool = False):
    def make(graph, call):
        value, axis = call["self"], call["dim"] % len(call.shape)
        size = value.meta["val"].shape[axis]
        graph.named(value, tuple(value.meta["val"].shape))

        def element(index):
            k = graph.fresh()
            other = graph.values[value]([*index[:axis], k, *index[axis + 1 :]])
            over = graph.ranges([k], [size])
            total, own = f"sum[{over}](exp({plain(other)}))", graph.values[value](index)
            if logarithm:
                return f"({own} - log({total}))"
            text = f"exp({plain(own)}) / {total}"
            return f"(if max[{over}]({plain(other)}) == -inf then 0 else {text})" if safe else text

        return element

    return Operator(make)


def _product_of(graph: GraphFormula, a, b) -> Element:
    inner = a.meta["val"].shape[-1]

    def element(index):
        k = graph.fresh()
        first, last = list(index[:-2]), list(index[-2:])
        return (f"sum[{graph.ranges([k], [inner])}]({graph.values[a]([*first, last[0], k])} * "
                f"{graph.values[b]([*first, k, last[1]])})")

    return element


def _product(left: str, right: str, added: Optional[str] = None):
    def make(graph, call):
        product = _product_of(graph, call[left], call[right])
        if added is None:
            return product
        scale, weight = call.args.get("alpha", 1), call.args.get("beta", 1)
        one = lambda factor: "" if factor == 1 else f"{graph.number(factor)} * "  # noqa: E731
        return lambda i: f"({one(weight)}{_operand(graph, call, added)(i)} + {one(scale)}{product(i)})"

    return Operator(make, sums=True)


# --- Normalisations


def _scaled(graph: GraphFormula, text: str, weight: Optional[str], bias: Optional[str]) -> str:
    return f"({text}{f' * {weight}' if weight else ''}{f' + {bias}' if bias else ''})"


def _layer_norm(graph, call):
    value, own = call["input"], tuple(call["input"].meta["val"].shape)
    rows = len(own) - len(call["normalized_shape"])
    graph.named(value, own)
    index = graph.indices(rows)
    mean, variance = graph.new_name(), graph.new_name()
    inner = [graph.fresh() for _ in own[rows:]]
    over = graph.ranges(inner, own[rows:])
    at = lambda tensor, i: f"{tensor}[{', '.join(i)}]" if rows else tensor  # noqa: E731
    head = lambda tensor: f"{tensor}[{graph.ranges(index, own)}]" if rows else tensor  # noqa: E731
    term = graph.values[value]([*index, *inner])
    graph.statements.append(f"{head(mean)} = mean[{over}]({term})")
    graph.statements.append(f"{head(variance)} = mean[{over}](({term} - {at(mean, index)})^2)")

    def element(i):
        text = (f"({graph.values[value](i)} - {at(mean, i[:rows])}) * "
                f"rsqrt({at(variance, i[:rows])} + {graph.number(call['eps'])})")
        given = lambda name: graph.values[call[name]](i[rows:]) if call[name] is not None else None  # noqa: E731
        return _scaled(graph, text, given("weight"), given("bias"))

    return [graph.stored(element, call.node.meta["val"][0].dtype)]


def _group_norm(graph, call):
    value, own, groups = call["input"], tuple(call["input"].meta["val"].shape), call["group"]
    graph.named(value, own)
    index = graph.indices(2)
    mean, variance = graph.new_name(), graph.new_name()
    inner = [graph.fresh() for _ in own[1:]]
    channels = graph.extent(own[1] // groups)
    over = graph.ranges(inner, [own[1] // groups, *own[2:]])
    term = graph.values[value]([index[0], f"{index[1]} * {_bracketed(channels)} + {inner[0]}", *inner[1:]])
    head = graph.ranges(index, [own[0], groups])
    graph.statements.append(f"{mean}[{head}] = mean[{over}]({term})")
    graph.statements.append(f"{variance}[{head}] = mean[{over}](({term} - {mean}[{', '.join(index)}])^2)")

    def element(i):
        group = f"{i[0]}, {i[1]} / {_bracketed(channels)}"
        text = (f"({graph.values[value](i)} - {mean}[{group}]) * "
                f"rsqrt({variance}[{group}] + {graph.number(call['eps'])})")
        given = lambda name: graph.values[call[name]]([i[1]]) if call[name] is not None else None  # noqa: E731
        return _scaled(graph, text, given("weight"), given("bias"))

    return [graph.stored(element, call.node.meta["val"][0].dtype)]


def _batch_norm(graph, call):
    """With given statistics. PyTorch folds them into a factor and a summand, and so may a kernel."""
    if call.args.get("training"):
        raise Untranslated("batch_norm with the batch's own statistics")

    def element(i):
        channel = lambda name: graph.values[call[name]]([i[1]])  # noqa: E731
        scale = f"rsqrt({channel('running_var')} + {graph.number(call['eps'])})"
        scale = scale if call["weight"] is None else f"({channel('weight')} * {scale})"
        shift = f"{channel('running_mean')} * {scale}"
        shift = f"- {shift}" if call["bias"] is None else f"+ ({channel('bias')} - {shift})"
        return f"({graph.values[call['input']](i)} * {scale} {shift})"

    return [graph.stored(element, call.node.meta["val"][0].dtype)]


def _negative_log_likelihood(graph, call):
    """Of rows of log-probabilities; the second result is the number of rows that count."""
    if call["weight"] is not None or len(call["self"].meta["val"].shape) != 2:
        raise Untranslated("nll_loss with weights or more than two dims")
    rows = graph.extent(call["self"].meta["val"].shape[0])
    graph.holds_indices(call["target"], call["self"].meta["val"].shape[1])
    target, ignored = (lambda i: graph.values[call["target"]]([i])), number(call["ignore_index"])
    term = lambda i: f"(if {target(i)} == {ignored} then 0 else -{graph.values[call['self']]([i, target(i)])})"  # noqa: E731

    def over_rows(text: Callable[[str], str]) -> str:
        k = graph.fresh()
        return f"sum[{k} in 0..{rows}]({plain(text(k))})"

    count = lambda i: over_rows(lambda k: f"(if {target(k)} == {ignored} then 0 else 1)")  # noqa: E731
    none, mean = call["reduction"] == 0, call["reduction"] == 1
    total = (lambda i: term(i[0])) if none else lambda i: over_rows(term) + (f" / {count(i)}" if mean else "")
    return [total, count]


# --- Moves


def _permuted(order_of: Callable[[Call, int], Sequence[int]]):
    def make(graph, call):
        rank = len(call["self"].meta["val"].shape)
        order = list(order_of(call, rank))
        return lambda i: graph.values[call["self"]]([i[order.index(d)] for d in range(rank)])

    return Operator(make, moves=True)


def _swapped(call: Call, rank: int) -> List[int]:
    order = list(range(rank))
    a, b = call["dim0"] % rank, call["dim1"] % rank
    order[a], order[b] = order[b], order[a]
    return order


def _runs(own: Sequence[int], shape: Sequence[int]) -> List[Tuple[List[int], List[int]]]:
    """The smallest neighbouring groups of dims of two views that have as many elements; dims of extent 1 stay out."""
    left, right = [d for d, size in enumerate(own) if size != 1], [d for d, size in enumerate(shape) if size != 1]
    runs: List[Tuple[List[int], List[int]]] = []
    while left or right:
        a, b = [left.pop(0)], [right.pop(0)]
        count, other = own[a[0]], shape[b[0]]
        while count != other:
            if count < other:
                a.append(left.pop(0))
                count *= own[a[-1]]
            else:
                b.append(right.pop(0))
                other *= shape[b[-1]]
        runs.append((a, b))
    return runs


def _viewed(graph, call):
    value, own, shape = call["self"], tuple(call["self"].meta["val"].shape), call.shape
    runs = _runs(own, shape)

    def element(index):
        parts = ["0"] * len(own)
        for mine, theirs in runs:
            linear = index[theirs[0]]
            for d in theirs[1:]:
                linear = f"{_bracketed(linear)} * {_bracketed(graph.extent(shape[d]))} + {index[d]}"
            step = math.prod(own[d] for d in mine[1:])
            for d in mine:
                part = linear if step == 1 else f"{_bracketed(linear)} / {_bracketed(graph.extent(step))}"
                parts[d] = part if d == mine[0] else f"{_bracketed(part)} % {_bracketed(graph.extent(own[d]))}"
                step //= own[mine[mine.index(d) + 1]] if d != mine[-1] else 1
        return graph.values[value](parts)

    return element


def _part(graph: GraphFormula, value, axis: int, start: int, step: int = 1) -> Element:
    offset = graph.extent(start)

    def element(index):
        own = index[axis] if step == 1 else f"{step} * {index[axis]}"
        return graph.values[value]([*index[:axis], _plus(own, offset), *index[axis + 1 :]])

    return element


def _slice(graph, call):
    value, axis = call["self"], call["dim"] % len(call.shape)
    size, start = value.meta["val"].shape[axis], call["start"] or 0
    return _part(graph, value, axis, min(max(start + size if start < 0 else start, 0), size), call["step"])


def _parts(graph, call):
    """Of equal sizes (split) or of given ones (split_with_sizes)."""
    value = call["self"]
    axis = call["dim"] % len(value.meta["val"].shape)
    starts, parts = 0, []
    for result in call.node.meta["val"]:
        parts.append(_part(graph, value, axis, starts))
        starts += result.shape[axis]
    return parts


def _joined(graph, call):
    values = call["tensors"]
    axis = call["dim"] % len(call.shape)
    sizes = [value.meta["val"].shape[axis] for value in values]

    def element(index):
        text, end = "", sum(sizes)
        for value, size in reversed(list(zip(values, sizes))):
            end -= size
            start = "" if end == 0 else f" - {_bracketed(graph.extent(end))}"
            own = graph.values[value]([*index[:axis], f"{index[axis]}{start}", *index[axis + 1 :]])
            text = own if not text else f"(if {index[axis]} < {graph.extent(end + size)} then {own} else {text})"
        return text

    return element


def _stacked(graph, call):
    values, axis = call["tensors"], call["dim"] % len(call.shape)

    def element(index):
        rest, text = [*index[:axis], *index[axis + 1 :]], ""
        for position, value in reversed(list(enumerate(values))):
            own = graph.values[value](rest)
            text = own if not text else f"(if {index[axis]} == {position} then {own} else {text})"
        return text

    return element


def _selected(graph, call):
    rank = len(call["self"].meta["val"].shape)
    axis, position = call["dim"] % rank, call["index"]
    position += call["self"].meta["val"].shape[axis] if position < 0 else 0
    return lambda i: graph.values[call["self"]]([*i[:axis], graph.extent(position), *i[axis:]])


def _looked_up(graph, call):
    rank = len(call["indices"].meta["val"].shape)
    graph.holds_indices(call["indices"], call["weight"].meta["val"].shape[0], "tokens")
    return lambda i: graph.values[call["weight"]]([graph.values[call["indices"]](i[:rank]), *i[rank:]])


def _gathered(graph, call):
    axis = call["dim"] % max(len(call.shape), 1)
    graph.holds_indices(call["index"], call["self"].meta["val"].shape[axis])
    return lambda i: graph.values[call["self"]]([*i[:axis], graph.values[call["index"]](i), *i[axis + 1 :]])


def _selected_rows(graph, call):
    axis = call["dim"] % len(call.shape)
    graph.holds_indices(call["index"], call["self"].meta["val"].shape[axis])
    return lambda i: graph.values[call["self"]]([*i[:axis], graph.values[call["index"]]([i[axis]]), *i[axis + 1 :]])


def _indexed(graph, call):
    """x[rows] and x[:, columns]: one tensor of indices."""
    given = [(axis, tensor) for axis, tensor in enumerate(call["indices"]) if tensor is not None]
    if len(given) != 1:
        raise Untranslated("several tensors of indices")
    axis, tensor = given[0]
    if tensor.meta["val"].dtype == graph.torch.bool:
        raise Untranslated("a selection by a mask")
    graph.holds_indices(tensor, call["self"].meta["val"].shape[axis])
    end = axis + len(tensor.meta["val"].shape)
    return lambda i: graph.values[call["self"]]([*i[:axis], graph.values[tensor](i[axis:end]), *i[end:]])


def _rolled(graph, call):
    shifts, dims = call["shifts"], call["dims"]
    if len(shifts) != 1 or len(dims) != 1:
        raise Untranslated("a roll over several dims")
    axis = dims[0] % len(call.shape)
    size = call.shape[axis]
    back = graph.extent((size - shifts[0]) % size)
    return lambda i: graph.values[call["self"]]([*i[:axis], f"({_plus(i[axis], back)}) % ({graph.extent(size)})", *i[axis + 1 :]])


_WHERE = _text(lambda c, a, b: f"(if {c} then {a} else {b})", "condition", "self", "other")
_ARANGE = Operator(_arange, moves=True)
_MOVED = Operator(_copy, moves=True)
_VIEWED = Operator(_viewed, moves=True)
_EQUAL = Operator(lambda graph, call: _operand(graph, call), moves=True)

OPERATORS: Dict[str, Operator] = {
    **{name: _function(name) for name in ("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "erf", "erfc", "sigmoid", "sin",
                                          "cos", "abs", "floor", "ceil", "sign", "silu", "relu", "exp2", "log2", "isnan")},
    "logical_not": _text(lambda a: f"(not {a})", "self"),
    **{name: _sign(sign) for name, sign in {
        "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
        "logical_and": "and", "logical_or": "or"}.items()},
    "softplus": Operator(_softplus),
    "gelu": Operator(_gelu),
    "pow": _text(lambda a, b: f"({a})^{_bracketed(b)}", "self", "exponent"),
    "rsub": _text(lambda a, b: f"({b} - {a})", "self", "other"),
    "neg": _text(lambda a: f"(-{a})", "self"),
    "square": _text(lambda a: f"({a})^2", "self"),
    "reciprocal": _text(lambda a: f"(1 / {a})", "self"),
    "maximum": _text(lambda a, b: f"max({a}, {b})", "self", "other"),
    "minimum": _text(lambda a, b: f"min({a}, {b})", "self", "other"),
    "round": Operator(_round),
    "clamp": Operator(_clamp),
    "clamp_min": Operator(_clamp),
    "clamp_max": Operator(_clamp),
    "where": _WHERE._replace(moves=True),
    "masked_fill": _text(lambda m, v, a: f"(if {m} then {v} else {a})", "mask", "value", "self")._replace(moves=True),
    "xlogy": _text(lambda a, b: f"(if {a} == 0 then 0 else {a} * log({plain(b)}))", "self", "other"),
    "lerp": _text(lambda a, b, w: f"({a} + {w} * ({b} - {a}))", "self", "end", "weight"),
    "tril": _triangle("<="),
    "triu": _triangle(">="),
    **{name: _filled(lambda call: 0) for name in ("zeros", "zeros_like", "new_zeros")},
    **{name: _filled(lambda call: 1) for name in ("ones", "ones_like", "new_ones")},
    **{name: _filled(lambda call: call["fill_value"]) for name in ("full", "full_like", "new_full")},
    "scalar_tensor": _filled(lambda call: call["s"]),
    "arange": _ARANGE,
    "iota": _ARANGE,
    "mean": _reduction("mean"),
    "sum": _reduction("sum"),
    "prod": _reduction("prod"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "max": Operator(_largest_and_position, sums=True),
    "var": Operator(_variance_of, sums=True),
    "std": Operator(_deviation, sums=True),
    "var_mean": Operator(_variance_and_mean, sums=True),
    "logsumexp": Operator(_log_sum_exp, sums=True),
    "linalg_vector_norm": Operator(_norm, sums=True),
    "cumsum": _running("sum"),
    "cumprod": _running("prod"),
    "_softmax": _softmax(logarithm=False),
    "_log_softmax": _softmax(logarithm=True),
    "_safe_softmax": _softmax(logarithm=False, safe=True),
    "mm": _product("self", "mat2"),
    "bmm": _product("self", "mat2"),
    "addmm": _product("mat1", "mat2", "self"),
    "baddbmm": _product("batch1", "batch2", "self"),
    "nll_loss_forward": Operator(_negative_log_likelihood),
    "native_layer_norm": Operator(_layer_norm),
    "native_batch_norm": Operator(_batch_norm),
    "_native_batch_norm_legit_no_training": Operator(_batch_norm),
    "native_group_norm": Operator(_group_norm),
    **{name: _MOVED for name in ("_to_copy", "clone", "detach", "alias", "contiguous", "lift_fresh_copy", "convert_element_type")},
    **{name: _VIEWED for name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze")},
    "expand": _EQUAL,
    "t": _permuted(lambda call, rank: reversed(range(rank))),
    "transpose": _permuted(_swapped),
    "permute": _permuted(lambda call, rank: [d % rank for d in call["dims"]]),
    "select": Operator(_selected, moves=True),
    "slice": Operator(_slice, moves=True),
    "split": Operator(_parts, moves=True),
    "split_with_sizes": Operator(_parts, moves=True),
    "cat": Operator(_joined, moves=True),
    "stack": Operator(_stacked, moves=True),
    "roll": Operator(_rolled, moves=True),
    "embedding": Operator(_looked_up, moves=True),
    "gather": Operator(_gathered, moves=True),
    "index": Operator(_indexed, moves=True),
    "index_select": Operator(_selected_rows, moves=True),
}

# Operators that PyTorch itself writes as several of the table's.
DECOMPOSED = ("linear", "addcmul", "addcdiv", "matmul", "leaky_relu", "elu", "hardswish", "hardsigmoid", "hardtanh", "mish", "mse_loss",
              "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "log_sigmoid_forward", "celu", "softshrink", "hardshrink", "threshold", "_fused_rms_norm")
