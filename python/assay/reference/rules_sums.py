"""Rules of sums and of what is made of them: reductions, products, scans, softmax, scatter."""
from typing import Any, List, Optional, Sequence, Tuple

import torch

from .arithmetic import Value, undecided
from .functions import TABLE, exp_error, log_error
from .precision import INF, RMS
from .rules import apply, power, rule

Tensor = torch.Tensor

# Scores so low that their exponential is 0 beside any other: a mask, whatever it is added to.
_MASKED = -1e30


def dims_of(x: Tensor, dim: Any) -> List[int]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.ndim))
    return [d % max(1, x.ndim) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


@rule("sum")
def _sum(run, a):
    x = run.read(a["self"])
    x = _as_number(x, a.get("dtype"))
    if not x.v.is_floating_point():
        return _integer_sum(run, a, x)
    return run.math.sum(x, dims_of(x.v, a.get("dim")), a.get("keepdim", False))


def _as_number(x: Value, dtype: Optional[torch.dtype]) -> Value:
    """Integers that are summed in a floating type."""
    floats = dtype is not None and dtype.is_floating_point
    return Value(x.v.double(), x.b, x.s) if floats else x


def _integer_sum(run, a, x: Value):
    dims, keep = dims_of(x.v, a.get("dim")), a.get("keepdim", False)
    v = x.v.sum(dims, keepdim=keep) if dims else x.v.sum()
    return v if x.exact else Value(v, x.b.sum(dims, keepdim=keep), x.s.sum(dims, keepdim=keep))


@rule("mean")
def _mean(run, a):
    x = run.read(a["self"])
    x = Value(x.v.double(), x.b, x.s)
    return run.math.mean(x, dims_of(x.v, a.get("dim")), a.get("keepdim", False))


def _correction(a) -> float:
    if a.get("correction") is not None:
        return float(a["correction"])
    return 1.0 if a.get("unbiased", True) else 0.0


@rule("var")
def _var(run, a):
    return _var_mean(run, a)[0]


@rule("var_mean")
def _var_mean(run, a):
    x = run.read(a["self"])
    # var(self, unbiased) has no dim; torch then passes the flag second.
    dim = None if isinstance(a.get("dim"), bool) else a.get("dim")
    return run.math.variance(x, dims_of(x.v, dim), _correction(a), a.get("keepdim", False))


@rule("std")
def _std(run, a):
    return apply(run, _var(run, a), TABLE["sqrt"])


@rule("std_mean")
def _std_mean(run, a):
    variance, mean = _var_mean(run, a)
    return apply(run, variance, TABLE["sqrt"]), mean


@rule("linalg_vector_norm", "norm")
def _norm(run, a):
    x = run.read(a["self"])
    order = a.get("ord", a.get("p", 2))
    order = 2.0 if order is None else float(order)
    dims, keep = dims_of(x.v, a.get("dim")), a.get("keepdim", False)
    magnitude = run.math.monotone(x, torch.abs)
    if order == INF:
        return extreme_of(magnitude, dims, keep, True)
    if order == 1:
        return run.math.sum(magnitude, dims, keep)
    if order == 2:
        return apply(run, run.math.sum(run.math.square(x), dims, keep), TABLE["sqrt"])
    if order <= 0:
        return NotImplemented
    return power(run, run.math.sum(power(run, magnitude, order), dims, keep), 1 / order)


@rule("prod")
def _prod(run, a):
    x = run.read(a["self"])
    dim, keep = a.get("dim"), a.get("keepdim", False)
    multiply = (lambda t: t.prod()) if dim is None else (lambda t: t.prod(dim, keepdim=keep))
    count = x.v.numel() if dim is None else x.v.shape[dim]
    return _product_of(run, x, multiply, float(count))


@rule("cumprod")
def _cumprod(run, a):
    x = run.read(a["self"])
    return _product_of(run, x, lambda t: t.cumprod(a["dim"]), float(x.v.shape[a["dim"]] if x.v.ndim else 1))


def _product_of(run, x: Value, multiply, count: float) -> Value:
    v, u = multiply(x.v), run.math.u
    size = multiply(x.v.abs())
    most = multiply(x.v.abs() + x.bound()) if not x.exact else size
    b = (most - size) + count * u * most + run.math.eta
    s = (RMS * u * v) ** 2 * count + (most - size) ** 2 / 3
    return run.math.settle(Value(v, b, s), (Value(v, b, s),))


# ---- extremes ----


def extreme_of(x: Value, dims: Sequence[int], keepdim: bool, largest: bool) -> Value:
    pick = torch.amax if largest else torch.amin
    choose = lambda t: pick(t, dims, keepdim=keepdim)
    v = choose(x.v)
    if x.exact:
        return Value(v)
    b = torch.maximum(choose(x.v + x.b) - v, v - choose(x.v - x.b))
    best = x.v.amax(dims, keepdim=True) if largest else x.v.amin(dims, keepdim=True)
    reach = x.b.amax(dims, keepdim=True)
    near = (x.v - best).abs() <= reach + x.b
    s = torch.where(near, x.s, 0.0).amax(dims, keepdim=keepdim)
    b = torch.where(torch.isnan(b), torch.where(torch.isfinite(v), INF, 0.0), b)
    return Value(v, b, s)


@rule("amax")
def _amax(run, a):
    x = run.read(a["self"])
    return extreme_of(x, dims_of(x.v, a.get("dim")), a.get("keepdim", False), True)


@rule("amin")
def _amin(run, a):
    x = run.read(a["self"])
    return extreme_of(x, dims_of(x.v, a.get("dim")), a.get("keepdim", False), False)


@rule("max", "min")
def _max(run, a):
    largest = run.operator == "max"
    if "other" in a:
        return run.math.extreme(run.read(a["self"]), run.read(a["other"]), largest)
    x = run.read(a["self"])
    if a.get("dim") is None:
        return extreme_of(x, list(range(x.v.ndim)), False, largest)
    dim, keep = a["dim"], a.get("keepdim", False)
    index = (torch.max if largest else torch.min)(x.v, dim, keepdim=True).indices
    chosen = index_of_extreme(x, index, dim, largest, first=False)
    values = extreme_of(x, [dim], keep, largest)
    return values, chosen if keep else chosen.map(lambda t: t.squeeze(dim))


@rule("argmax", "argmin")
def _argmax(run, a):
    largest = run.operator == "argmax"
    x, dim, keep = run.read(a["self"]), a.get("dim"), a.get("keepdim", False)
    if dim is None:
        x, dim, keep = x.map(lambda t: t.flatten()), 0, False
    index = (torch.argmax if largest else torch.argmin)(x.v, dim, keepdim=True)
    chosen = index_of_extreme(x, index, dim, largest, first=True)
    return chosen if keep else chosen.map(lambda t: t.squeeze(dim))


def index_of_extreme(x: Value, index: Tensor, dim: int, largest: bool, first: bool) -> Value:
    """An index, and how far the others are that could be chosen. `first`: of equal elements the first."""
    if x.v.ndim == 0:
        return Value(index)
    best = x.v.gather(dim, index)
    bound = x.bound()
    own = bound.gather(dim, index)
    apart = (x.v - best).abs()
    rivals = (apart <= bound + own) & ((bound + own > 0) | (not first))
    return _index_spread(x.v, rivals, index, dim)


def _index_spread(v: Tensor, rivals: Tensor, index: Tensor, dim: int) -> Value:
    shape = [1] * v.ndim
    shape[dim] = -1
    place = torch.arange(v.shape[dim]).reshape(shape)
    distance = torch.where(rivals, (place - index).abs(), 0).amax(dim, keepdim=True)
    b = distance.double()
    return Value(index, b, b ** 2) if bool((b > 0).any()) else Value(index)


@rule("topk", "sort", "kthvalue")
def _ordered(run, a):
    x, name = run.read(a["self"]), run.operator
    dim = a.get("dim", -1)
    if name == "topk":
        order = lambda t: torch.topk(t, a["k"], dim, a.get("largest", True), a.get("sorted", True))
    elif name == "kthvalue":
        order = lambda t: torch.kthvalue(t, a["k"], dim, a.get("keepdim", False))
    else:
        order = lambda t: torch.sort(t, dim=dim, descending=a.get("descending", False))
    values, index = order(x.v)
    if x.v.ndim == 0:
        return Value(values, x.b, x.s), index
    stable = bool(a.get("stable"))
    dropped = name == "kthvalue" and not a.get("keepdim")
    moved = (index.unsqueeze(dim), values.unsqueeze(dim)) if dropped else (index, values)
    chosen = _rivals(x, moved[0], moved[1], dim, stable)
    if moved[0] is not index:
        chosen = chosen.map(lambda t: t.squeeze(dim))
    if x.exact:
        return Value(values), chosen
    # The k-th largest moves by no more than the hull of the elements does.
    b = torch.maximum(order(x.v + x.b).values - values, values - order(x.v - x.b).values)
    s = x.s.amax(dim, keepdim=True).expand_as(moved[1]).reshape(values.shape)
    return run.math.settle(Value(values, b, s), ()), chosen


def _rivals(x: Value, index: Tensor, values: Tensor, dim: int, stable: bool) -> Value:
    """For every element of a selection, how far its rivals are. Equal elements come in any order."""
    dim = dim % x.v.ndim
    bound = x.bound()
    if x.exact and stable:
        return Value(index)
    own = bound.gather(dim, index)
    # One column of the selection at a time: the selection may be as long as the row.
    spread = torch.zeros_like(values, dtype=torch.float64)
    ordered, _ = torch.sort(x.v, dim=dim)
    gaps = ordered.diff(dim=dim)
    if x.exact and not bool((gaps == 0).any()):
        return Value(index)
    if not x.exact and not bool((gaps <= 2 * bound.max()).any()):
        return Value(index)
    for k in range(index.shape[dim]):
        at = index.narrow(dim, k, 1)
        apart = (x.v - values.narrow(dim, k, 1)).abs()
        reach = bound + own.narrow(dim, k, 1)
        rivals = (apart <= reach) & ((reach > 0) | (not stable))
        found = _index_spread(x.v, rivals, at, dim)
        spread.narrow(dim, k, 1).copy_(found.bound())
    return Value(index, spread, spread ** 2) if bool((spread > 0).any()) else Value(index)


@rule("cummax", "cummin")
def _cummax(run, a):
    x, largest = run.read(a["self"]), run.operator == "cummax"
    scan = (lambda t: torch.cummax(t, a["dim"])) if largest else (lambda t: torch.cummin(t, a["dim"]))
    values, index = scan(x.v)
    if x.exact:
        return Value(values), index
    b = torch.maximum(scan(x.v + x.b).values - values, values - scan(x.v - x.b).values)
    return Value(values, b, torch.cummax(x.s, a["dim"]).values), undecided(index, b > 0)


@rule("any", "all")
def _any(run, a):
    x = run.raw(a["self"])
    truth = x.v.bool()
    dims, keep = dims_of(x.v, a.get("dim")), a.get("keepdim", False)
    any_or_all = torch.any if run.operator == "any" else torch.all
    fold = (lambda t: any_or_all(t, dims, keepdim=keep)) if dims else (lambda t: t)
    v = fold(truth)
    if x.exact:
        return v
    open_ = x.b > 0
    return undecided(v, fold(truth | open_) != fold(truth & ~open_))


# ---- scans ----


@rule("cumsum")
def _cumsum(run, a):
    x, dim = _as_number(run.read(a["self"]), a.get("dtype")), a["dim"]
    if not x.v.is_floating_point():
        v = x.v.cumsum(dim)
        return v if x.exact else Value(v, x.b.cumsum(dim), x.s.cumsum(dim))
    if x.v.ndim == 0:
        return x
    shape = [1] * x.v.ndim
    shape[dim] = -1
    count = torch.arange(1, x.v.shape[dim] + 1, dtype=torch.float64).reshape(shape)
    scan = lambda t: t.cumsum(dim)
    v, size = scan(x.v), scan(x.v.abs())
    if x.exact and bool((x.v == x.v.round()).all()) and bool((size < 1 / run.math.u).all()):
        return Value(v)
    walk = scan(v ** 2)
    b, s = (None, None) if x.exact else (scan(x.b), scan(x.s))
    r = run.math.sum_of(v, size, scan(x.v ** 2), count, b, s, walk)
    return run.math.settle_reduced(r, size, x, scan)


# ---- exponentials over a row ----


class _Exponentials:
    """exp(x - max) of rows, and their sum: relative errors of each, for any sound algorithm (two passes,
    online, in powers of two). The maximum is a shift: its own error cancels."""

    def __init__(self, run, x: Value, dim):
        math, u = run.math, run.math.u
        self.top = x.v.amax(dim, keepdim=True)
        shift = torch.where(torch.isfinite(self.top), self.top, 0.0)
        self.apart = x.v - shift
        self.scale = torch.exp(self.apart)
        self.total = self.scale.sum(dim, keepdim=True)
        self.share = self.scale / self.total
        self.count = float(x.v.shape[dim] if isinstance(dim, int) else
                           torch.tensor([x.v.shape[d] for d in dim]).prod()) if x.v.ndim else 1.0
        math.note_sum(self.count)
        masked = (x.v <= _MASKED) & (self.top > _MASKED / 10)
        size = torch.where(torch.isfinite(x.v) & ~masked, x.v.abs() + shift.abs(), 0.0)
        distance = torch.where(masked, 0.0, self.apart.abs())
        relative, _ = exp_error(torch.where(masked, 0.0, self.apart), self.scale, math.precision)
        own = u * (relative + distance + size)
        own = torch.where(torch.isfinite(x.v) & ~masked, own, 0.0)
        bound = torch.where(masked, 0.0, x.bound())
        # Relative error of each exponential, and of their sum.
        self.error = torch.expm1((own + bound).clamp(max=700.0))
        self.error = torch.where(torch.isfinite(bound), self.error, INF)
        lost = run.math.eta / self.total * self.count
        flat = torch.where(self.share > 0, self.share * self.error, 0.0)
        self.total_error = flat.sum(dim, keepdim=True) + self.count * u + lost
        small = (RMS * u) ** 2 * (distance ** 2 + size ** 2) + (relative * u) ** 2 * 0.125
        self.variance = torch.where(masked, 0.0, small + x.variance())
        self.variance = torch.where(torch.isfinite(x.v), self.variance, 0.0)
        squares = (self.share ** 2).sum(dim, keepdim=True)
        walk = (RMS * u) ** 2 * (self.count / 3 + self.count * squares / 6 + 1)
        one = torch.ones_like(squares)
        walk = math.coherent(one, one, squares, self.count, walk)
        weighted = torch.where(self.share > 0, self.share ** 2 * self.variance, 0.0)
        self.total_variance = weighted.sum(dim, keepdim=True) + walk
        self.tainted = ((x.bound() == INF) & ~masked).double().sum(dim, keepdim=True) > 0


@rule("_softmax", "_safe_softmax", "softmax")
def _softmax(run, a):
    x, dim = run.read(a["self"]), a["dim"]
    if x.v.ndim == 0:
        return Value(torch.ones_like(x.v))
    math = run.math
    e = _Exponentials(run, x, dim)
    v = torch.softmax(x.v, dim)
    if run.operator == "_safe_softmax":
        v = torch.where((x.v == -INF).all(dim, keepdim=True), 0.0, v)
    division = 5 if math.precision.fast else 2
    below = (1 - e.total_error).clamp(min=1e-30)
    b = v * ((1 + e.error) * (1 + division * math.u) / below - 1) + 2 * math.eta
    b = torch.minimum(torch.nan_to_num(b, nan=INF), torch.maximum(v, 1 - v) + 4 * math.u)
    b = torch.where((x.v == -INF) & (x.bound() == 0), 0.0, b)
    s = v ** 2 * (e.variance + e.total_variance + (RMS * 1.5 * math.u) ** 2)
    s = torch.minimum(torch.nan_to_num(s, nan=INF), b ** 2)
    finite = torch.isfinite(v)
    # Of what may have overflowed before, nothing is left to require: exp(inf - inf) is NaN.
    return Value(v, torch.where(e.tainted, INF, torch.where(finite, b, 0.0)),
                 torch.where(e.tainted, INF, torch.where(finite, s, 0.0)))


@rule("_log_softmax", "log_softmax")
def _log_softmax(run, a):
    x, dim = run.read(a["self"]), a["dim"]
    if x.v.ndim == 0:
        return Value(torch.zeros_like(x.v))
    v = torch.log_softmax(x.v, dim)
    e = _Exponentials(run, x, dim)
    b, s = _log_of_total(run, e)
    u = run.math.u
    whole = (e.top + e.total.log()).abs()
    size = x.v.abs() + e.top.abs() + whole
    b = b + x.bound() + u * (size + 2 * v.abs())
    s = s + x.variance() + (RMS * u) ** 2 * (size ** 2 + v ** 2)
    return run.math.settle(Value(v, torch.where(torch.isfinite(v), b, 0.0), s), (x,))


@rule("logsumexp")
def _logsumexp(run, a):
    x, keep = run.read(a["self"]), a.get("keepdim", False)
    dims = dims_of(x.v, a["dim"])
    if x.v.ndim == 0:
        return x
    v = torch.logsumexp(x.v, dims, keepdim=True)
    e = _Exponentials(run, x, dims)
    b, s = _log_of_total(run, e)
    u = run.math.u
    b = b + u * (e.top.abs() + 2 * v.abs())
    s = s + (RMS * u) ** 2 * (e.top ** 2 + v ** 2)
    r = run.math.settle(Value(v, b, s), (Value(v, torch.where(e.tainted, INF, 0.0), s),))
    return r if keep else r.map(lambda t: t.squeeze(dims))


def _log_of_total(run, e: _Exponentials) -> Tuple[Tensor, Tensor]:
    logarithm = e.total.log()
    relative, absolute = log_error(e.total, logarithm, run.math.precision)
    own = run.math.u * (relative * logarithm.abs() + absolute)
    through = torch.where(e.total_error < 1, -torch.log1p(-e.total_error.clamp(max=1 - 1e-15)), INF)
    return through + own, e.total_variance + own ** 2 * 0.125


# ---- products ----


def product(run, x: Value, y: Value) -> Value:
    """Matrices, with or without a batch."""
    count = float(x.v.shape[-1])

    def parts(left: Tensor, right: Tensor, most: int) -> List[Tensor]:
        chunk = max(1, -(-left.shape[-1] // most))
        return [p @ q for p, q in zip(left.split(chunk, -1), right.split(chunk, -2))]

    if count == 0:
        return Value(x.v @ y.v)
    return run.math.product(x, y, torch.matmul, count, parts)


@rule("mm", "bmm")
def _mm(run, a):
    return product(run, run.read(a["self"]), run.read(a["mat2"]))


@rule("mv")
def _mv(run, a):
    y = run.read(a["vec"]).map(lambda t: t.unsqueeze(-1))
    return product(run, run.read(a["self"]), y).map(lambda t: t.squeeze(-1))


@rule("dot", "vdot")
def _dot(run, a):
    x = run.read(a["self"]).map(lambda t: t.unsqueeze(0))
    y = run.read(a["tensor"] if "tensor" in a else a["other"]).map(lambda t: t.unsqueeze(-1))
    return product(run, x, y).map(lambda t: t.reshape(()))


@rule("addmm", "baddbmm", "addmv")
def _addmm(run, a):
    names = ("mat", "vec") if run.operator == "addmv" else \
        ("batch1", "batch2") if run.operator == "baddbmm" else ("mat1", "mat2")
    x, y = run.read(a[names[0]]), run.read(a[names[1]])
    if run.operator == "addmv":
        result = _mv(run, {"self": a["mat"], "vec": a["vec"]})
    else:
        result = product(run, x, y)
    return with_start(run, result, a["self"], a.get("beta", 1), a.get("alpha", 1), float(x.v.shape[-1]))


def with_start(run, result: Value, start: Optional[Tensor], beta: Any, alpha: Any, count: float) -> Value:
    """A sum of products that may begin with what is added to it: each partial sum is larger by that. (The
    bound of an output allows for it: BudgetEvaluation.result.)"""
    if alpha != 1:
        result = run.math.mul(result, run.constant(float(alpha)))
    if start is None or beta == 0:
        return result
    term = run.read(start)
    if beta != 1:
        term = run.math.mul(term, run.constant(float(beta)))
    r = run.math.add(result, term)
    more = (RMS * run.math.u) ** 2 * count / 3 * (term.v ** 2 + r.v ** 2)
    return Value(r.v, r.bound(), r.variance() + more)


def _convolution_count(a, transposed: bool) -> float:
    weight = a["weight"]
    area = 1.0
    for extent in weight.shape[2:]:
        area *= extent
    return area * (weight.shape[0] / a["groups"] if transposed else weight.shape[1])


@rule("convolution")
def _convolution(run, a):
    x, w = run.read(a["input"]), run.read(a["weight"])
    rest = (a["stride"], a["padding"], a["dilation"], a["transposed"], a["output_padding"], a["groups"])
    op = lambda p, q: torch.ops.aten.convolution(p, q, None, *rest)
    count = _convolution_count(a, a["transposed"])
    result = run.math.product(x, w, op, count)
    bias = a.get("bias")
    if bias is None:
        return result
    shape = (-1,) + (1,) * (w.v.ndim - 2)
    spread = run.read(bias).map(lambda t: t.reshape(shape))
    r = run.math.add(result, spread)
    more = (RMS * run.math.u) ** 2 * count / 3 * (spread.v ** 2 + r.v ** 2)
    return Value(r.v, r.bound(), r.variance() + more)


@rule("convolution_backward")
def _convolution_backward(run, a):
    grad, x, w = run.read(a["grad_output"]), run.read(a["input"]), run.read(a["weight"])
    rest = (a["stride"], a["padding"], a["dilation"], a["transposed"], a["output_padding"], a["groups"])
    wanted = a["output_mask"]
    back = lambda g, p, q, mask: torch.ops.aten.convolution_backward(g, p, q, None, *rest, mask)
    results: List[Any] = [None, None, None]
    if wanted[0]:
        count = _convolution_count(a, not a["transposed"])
        results[0] = run.math.product(grad, w, lambda g, q: back(g, x.v, q, [True, False, False])[0], count)
    if wanted[1]:
        places = max(t.shape[0] * torch.tensor(t.shape[2:]).prod().item() for t in (grad.v, x.v))
        op = lambda g, p: back(g, p, w.v, [False, True, False])[1]
        results[1] = run.math.product(grad, x, op, float(places))
    if wanted[2]:
        results[2] = run.math.sum(grad, [0] + list(range(2, grad.v.ndim)), False)
    return tuple(results)


# ---- scatter ----


@rule("scatter_add", "index_add", "index_put", "_index_put_impl", "_unsafe_index_put", "scatter",
      "index_copy", "scatter_reduce", "put", "masked_scatter")
def _scatter(run, a):
    name = run.operator
    adds = name in ("scatter_add", "index_add") or (
        name in ("index_put", "_index_put_impl", "_unsafe_index_put", "put") and a.get("accumulate")) or \
        (name in ("scatter", "scatter_reduce") and a.get("reduce") in ("add", "sum"))
    source_name = next((n for n in ("src", "source", "values", "value") if n in a), None)
    if source_name is None or a.get("reduce") not in (None, "add", "sum") or not a.get("include_self", True):
        return NotImplemented
    base = run.read(a["self"]) if adds else run.moved(a["self"])
    given = a[source_name]
    source = run.constant(given)
    if isinstance(given, Tensor):
        source = run.read(given) if adds else run.moved(given)
    alpha = a.get("alpha", 1)
    if name == "index_add" and alpha != 1:
        source = run.math.mul(source, run.constant(float(alpha)))
    if source.v.dtype != base.v.dtype:
        source = Value(source.v.to(base.v.dtype), source.b, source.s)

    def put(into: Tensor, what: Tensor) -> Tensor:
        given_ = what if isinstance(given, Tensor) or source_name == "values" else what.item()
        return run.again({**a, "self": into, source_name: given_})

    if isinstance(given, Tensor) or source_name == "values":
        spread = lambda t: t
    else:
        spread = None
    lost = _undecided_places(run, a, base.v)
    masks = a.get("indices")
    masked = masks is not None and len(masks) == 1 and masks[0].dtype == torch.bool
    if not adds and masked and source.v.numel() == 1:
        spread_mask = lambda t: t.reshape(*t.shape, *[1] * (base.v.ndim - t.ndim))
        return run.math.choose(run.raw(masks[0]).map(spread_mask), source.map(lambda t: t.reshape(())), base)
    if not adds:
        v = put(base.v, source.v)
        if base.exact and source.exact and lost is None:
            return Value(v)
        b = put(base.bound(), source.bound() if spread else torch.zeros(()))
        s = put(base.variance(), source.variance() if spread else torch.zeros(()))
        return _lost(Value(v, b, s), lost)
    add = lambda t: put(torch.zeros_like(base.v, dtype=t.dtype), t)
    if not base.v.is_floating_point():
        return _lost(Value(put(base.v, source.v)), lost)
    count = add(torch.ones_like(source.v))
    total = run.math.linear(source, add, count + (base.v != 0))
    if source.exact and base.exact and bool((base.v == 0).all()):
        return _lost(total, lost)
    result = run.math.add(base, total)
    u = run.math.u
    more = count * u * base.v.abs()
    untouched = count == 0
    b = torch.where(untouched, base.bound(), result.bound() + more)
    s = torch.where(untouched, base.variance(), result.variance() + (RMS * u) ** 2 * count * base.v ** 2)
    return _lost(Value(result.v, b, s), lost)


def _undecided_places(run, a, base: Tensor) -> Optional[Tensor]:
    """Elements that an undecided index may or may not have written."""
    if "indices" in a:
        indices = [i for i in a["indices"] if i is not None]
        if all(run.raw(i).exact for i in indices):
            return None
        if len(indices) == 1 and indices[0].dtype == torch.bool:
            open_ = run.raw(indices[0]).b > 0
            return open_.reshape(*open_.shape, *[1] * (base.ndim - open_.ndim)).expand(base.shape)
        if len(indices) == 1:
            open_ = run.raw(indices[0])
            lost = torch.zeros(base.shape[0], dtype=torch.bool)
            lost[indices[0][open_.b > 0]] = True
            whole = bool((open_.b >= 1).any())
            return (lost | whole).reshape(-1, *[1] * (base.ndim - 1)).expand(base.shape)
        return torch.ones(base.shape, dtype=torch.bool)
    index = a.get("index", a.get("mask"))
    if index is None or run.raw(index).exact:
        return None
    open_ = run.raw(index).b > 0
    dim = a.get("dim", 0) % max(1, base.ndim)
    if index.ndim != base.ndim:  # index_add, index_copy: one index for a whole slice
        moved = run.raw(index).b >= 1
        lost = torch.zeros(base.shape[dim], dtype=torch.bool)
        lost[index[open_]] = True
        shape = [1] * base.ndim
        shape[dim] = -1
        return (lost | bool(moved.any())).reshape(shape).expand(base.shape)
    line = open_.any(dim, keepdim=True)
    grown = torch.zeros([1 if d == dim else e for d, e in enumerate(base.shape)], dtype=torch.bool)
    grown[tuple(slice(0, e) for e in line.shape)] = line
    return grown.expand(base.shape)


def _lost(r: Value, lost: Optional[Tensor]) -> Value:
    if lost is None:
        return r
    return Value(r.v, torch.where(lost, INF, r.bound()), torch.where(lost, INF, r.variance()))


@rule("nonzero")
def _nonzero(run, a):
    x = run.raw(a["self"])
    v = torch.nonzero(x.v)
    if x.exact:
        return v
    # Whether a listed element belongs to the list is undecided, not its place.
    open_ = (x.b > 0)[tuple(v.unbind(-1))].double() * 0.5
    b = open_.unsqueeze(-1).expand(v.shape)
    return Value(v, b, b) if bool((b > 0).any()) else v
