"""Arithmetic on values that carry a rounding budget.

A `Value` is the exact value v in float64, a hard bound b on how far a sound kernel's value may be from it,
and a variance s of that difference; b and s are None where the value is exact. Every operation passes the
operands' b and s on by its derivatives and adds its own rounding in the declared precision:

    v = x * y    b = |x| b_y + |y| b_x + b_x b_y + u |v|    s = x² s_y + y² s_x + (0.425 u v)²

An infinite bound means that nothing is known about the element: an intermediate value may overflow, a divisor
may be zero, or an index is undecided. A nonfinite v that follows from nonfinite inputs has the bound 0.
For bool and integer tensors b is how far another outcome within the budget could move the value.
"""
import math
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .precision import INF, RMS, Precision, half_ulp, round_to
from .tf32 import LARGEST, MEAN, cut_off

Tensor = torch.Tensor
Bilinear = Callable[[Tensor, Tensor], Tensor]
Linear = Callable[[Tensor], Tensor]

# Parts in which the partial sums of a product are followed, to know how far they stray from the result.
_WALK_PARTS = 8
_GROUP = 16  # products that Hopper's mma adds at once
_ALIKE = 2.0 ** -6  # relative spread of terms that count as equal
_COHERENT_TERMS = 64  # terms from which equal ones are rounded alike


class Value(NamedTuple):
    v: Tensor
    b: Optional[Tensor] = None
    s: Optional[Tensor] = None

    @property
    def exact(self) -> bool:
        return self.b is None

    def bound(self) -> Tensor:
        return torch.zeros_like(self.v, dtype=torch.float64) if self.b is None else self.b

    def variance(self) -> Tensor:
        return torch.zeros_like(self.v, dtype=torch.float64) if self.s is None else self.s

    def map(self, move: Callable[[Tensor], Tensor]) -> "Value":
        """The same elements elsewhere."""
        if self.b is None:
            return Value(move(self.v))
        return Value(move(self.v), move(self.b), move(self.s))


def _all_finite(x: Tensor) -> bool:
    # A sum is finite only if all terms are, and reads memory once.
    return math.isfinite(float(x.sum())) or bool(torch.isfinite(x).all())


def _largest(x: Tensor) -> float:
    if not x.numel():
        return 0.0
    low, high = torch.aminmax(x)
    return max(-float(low), float(high))


def _integral(x: Tensor) -> bool:
    return bool((x == x.round()).all())


class Arithmetic:
    """Operations in one declared precision."""

    def __init__(self, precision: Precision):
        self.precision = precision
        self.u = precision.u
        self.eta = precision.eta
        self.longest = 1.0  # of the sums so far

    # ---- shared steps ----

    def number(self, value: float, like: Tensor) -> Value:
        v = torch.full((), float(value), dtype=torch.float64, device=like.device)
        return self.rounded(v, None, None, 1, RMS)

    def rounded(self, v: Tensor, b: Optional[Tensor], s: Optional[Tensor], relative=1.0, rms=RMS) -> Value:
        """v with the operation's own rounding added: `relative` and `rms` in units of u. Exact operands whose
        result the precision holds are not rounded at all."""
        u = self.u
        if b is None:
            inexact = ~self.precision.holds(v) & torch.isfinite(v)
            if not bool(inexact.any()):
                return Value(v)
            size = v.abs() * inexact
            return Value(v, relative * u * size + self.eta * inexact, (rms * u * size) ** 2)
        size = v.abs() + b
        return Value(v, b + relative * u * size + self.eta * (size > 0), s + (rms * u * v) ** 2)

    def flushed(self, r: Value) -> Value:
        """An operand of which subnormal numbers may be taken for zeros."""
        tiny = self.precision.flushed(r.v)
        if not bool(tiny.any()):
            return r
        lost = r.v.abs() * tiny
        return Value(r.v, r.bound() + lost, r.variance() + lost ** 2)

    def settle(self, r: Value, operands: Sequence[Value], pole: bool = False) -> Value:
        """Nonfinite values and bounds: what may overflow has an infinite bound, what is nonfinite because the
        operands are has none. `pole`: a finite operand may give an infinity exactly (1 / 0, log 0)."""
        limit = self.precision.max * (1 + 2 * self.u)
        if _all_finite(r.v) and _largest(r.v) <= limit:
            if r.b is None or (_all_finite(r.b) and _all_finite(r.s)):
                return r
        finite = torch.isfinite(r.v)
        b = r.bound()
        beyond = (r.v.abs() > limit) & finite
        unknown = torch.isnan(b) | beyond | (b == INF)
        if not bool(finite.all()):
            shape = r.v.shape
            tainted = torch.zeros(shape, dtype=torch.bool)
            inputs_finite = torch.ones(shape, dtype=torch.bool)
            for x in operands:
                if x.b is not None:
                    tainted = tainted | (x.b == INF) | ((x.b > 0) if pole else False)
                inputs_finite = inputs_finite & torch.isfinite(x.v)
            overflow = inputs_finite & torch.isinf(r.v) if not pole else torch.zeros_like(tainted)
            unknown = torch.where(finite, unknown, tainted | overflow)
        return self._with_unknown(r, unknown)

    def _with_unknown(self, r: Value, unknown: Tensor) -> Value:
        finite = torch.isfinite(r.v)
        b = torch.where(unknown, INF, torch.where(finite, r.bound(), 0.0))
        s = r.variance()
        s = torch.where(unknown | torch.isnan(s), INF, torch.where(finite, s, 0.0))
        if not bool((b > 0).any()):
            return Value(r.v)
        return Value(r.v, b, s)

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """A rounding to `dtype` that an implementation may make, or leave out: the hull of both."""
        if x.b is None:
            r = round_to(x.v, dtype)
            moved = (r - x.v).abs()
            moved = torch.where(torch.isfinite(x.v), moved, 0.0)
            if not bool((moved > 0).any()):
                return x
            return Value(x.v, moved, torch.where(torch.isfinite(moved), moved, 0.0) ** 2)
        low, high = round_to(x.v - x.b, dtype), round_to(x.v + x.b, dtype)
        moved = torch.maximum(high - x.v, x.v - low)
        b = torch.maximum(x.b, moved)
        s = x.s + torch.minimum(half_ulp(x.v, dtype) ** 2 / 3, moved ** 2)
        finite = torch.isfinite(x.v)
        b = torch.where(finite, torch.nan_to_num(b, nan=INF, posinf=INF), x.b)
        return Value(x.v, b, torch.where(finite, s, x.s))

    def narrow(self, v: Tensor) -> Value:
        """Exact values that the precision may not hold."""
        return self.rounded(v, None, None)

    # ---- elementwise ----

    def add(self, x: Value, y: Value, sign: float = 1.0) -> Value:
        x, y = _real(x), _real(y)
        v = x.v + y.v if sign > 0 else x.v - y.v
        b = s = None
        if not (x.exact and y.exact):
            b, s = x.bound() + y.bound(), x.variance() + y.variance()
        return self.settle(self.rounded(v, b, s), (x, y))

    def sub(self, x: Value, y: Value) -> Value:
        return self.add(x, y, -1.0)

    def mul(self, x: Value, y: Value) -> Value:
        x, y = _real(x), _real(y)
        v = x.v * y.v
        b = s = None
        if not (x.exact and y.exact):
            bx, by, sx, sy = x.bound(), y.bound(), x.variance(), y.variance()
            b = x.v.abs() * by + y.v.abs() * bx + bx * by
            s = x.v ** 2 * sy + y.v ** 2 * sx + sx * sy
            # Exactly zero times an unknown finite number.
            zero = ((x.v == 0) & (bx == 0)) | ((y.v == 0) & (by == 0))
            b, s = torch.where(zero & (v == 0), 0.0, b), torch.where(zero & (v == 0), 0.0, s)
        return self.settle(self.rounded(v, b, s), (x, y))

    def square(self, x: Value) -> Value:
        x = _real(x)
        v = x.v * x.v
        b = s = None
        if not x.exact:
            b, s = 2 * x.v.abs() * x.b + x.b ** 2, 4 * v * x.s + 2 * x.s ** 2
        return self.settle(self.rounded(v, b, s), (x,))

    def div(self, x: Value, y: Value) -> Value:
        """x / y, or x times the reciprocal of y: two roundings."""
        x, y = _real(x), _real(y)
        v = x.v / y.v
        b = s = None
        if not (x.exact and y.exact):
            bx, by, sx, sy = x.bound(), y.bound(), x.variance(), y.variance()
            size = y.v.abs()
            b = torch.where(by < size, (bx + v.abs() * by) / (size - by), INF)
            b = torch.where((bx == 0) & (by == 0), 0.0, b)
            s = (sx + v ** 2 * sy) / y.v ** 2
            s = torch.where((bx == 0) & (by == 0), 0.0, s)
            # A divisor that overflows makes the quotient 0.
            lost = (size + by > self.precision.max) & torch.isfinite(v)
            b = torch.where(lost, torch.maximum(b, v.abs()), b)
            b = torch.where(torch.isinf(size) & (by == 0), 0.0, b)
            s = torch.where(torch.isinf(size) & (by == 0), 0.0, s)
        relative = 5 if self.precision.fast else 2
        if b is None:
            # Times the reciprocal, which only powers of two have exactly, even where the quotient is exact.
            inexact = (torch.frexp(y.v).mantissa.abs() != 0.5) & torch.isfinite(v) & (v != 0)
            b, s = torch.zeros_like(v), torch.zeros_like(v)
            if not bool(inexact.any()) and bool(self.precision.holds(v).all()):
                return self.settle(Value(v), (x, y), pole=True)
        return self.settle(self.rounded(v, b, s, relative, RMS * relative * 0.75), (x, y), pole=True)

    def function(self, x: Value, value: Linear, error: Callable[[Tensor, Tensor, Precision], Tuple],
                 lipschitz: Optional[Tuple[float, float]] = None, overflows: bool = False,
                 low: Optional[float] = None) -> Value:
        """A function of one argument. `error` gives the largest error of one evaluation in units of u,
        relative and absolute. `lipschitz`: largest slope and largest change, for functions that are not
        monotone. `low`: the smallest argument."""
        x = _real(x)
        v = value(x.v)
        relative, absolute = error(x.v, v, self.precision)
        own = self.u * (relative * v.abs() + absolute)
        b, s = own + self.eta, own ** 2 * 0.125
        if not x.exact:
            b_in, s_in = self.reach(x, v, value, lipschitz, low)
            b, s = b + b_in, s + s_in
        return self.settle(Value(v, b, s), (x,), pole=not overflows)

    def reach(self, x: Value, v: Tensor, value: Linear,
              lipschitz: Optional[Tuple[float, float]] = None,
              low: Optional[float] = None) -> Tuple[Tensor, Tensor]:
        """The largest change of a function when its argument moves by up to b, and its variance."""
        below = x.v - x.b if low is None else torch.maximum(x.v - x.b, x.v.clamp(max=low))
        up, down = (value(x.v + x.b) - v).abs(), (value(below) - v).abs()
        most = torch.maximum(up, down)
        most = torch.where(torch.isnan(most), INF, most)
        if lipschitz is not None:
            most = torch.maximum(most, (lipschitz[0] * x.b).clamp(max=lipschitz[1]))
        most = torch.where(x.b == 0, 0.0, torch.where(x.b == INF, INF, most))
        slope = torch.where(x.b > 0, most / x.b, 0.0)
        return most * 1.01, torch.nan_to_num(slope, nan=INF) ** 2 * x.s

    def monotone(self, x: Value, value: Linear) -> Value:
        """A function that rounds nothing (abs, relu, clamp, floor): the hull of its image."""
        v = value(x.v)
        if x.exact:
            return Value(v)
        b, s = self.reach(x, v, value)
        return self.settle(Value(v, b / 1.01, torch.minimum(s, b ** 2)), (x,))

    def extreme(self, x: Value, y: Value, largest: bool) -> Value:
        x, y = _real(x), _real(y)
        choose = torch.maximum if largest else torch.minimum
        v = choose(x.v, y.v)
        if x.exact and y.exact:
            return Value(v)
        bx, by = x.bound(), y.bound()
        high, low = choose(x.v + bx, y.v + by), choose(x.v - bx, y.v - by)
        b = torch.maximum(high - v, v - low)
        sx, sy = torch.broadcast_tensors(x.variance(), y.variance())
        close = (x.v - y.v).abs() <= bx + by
        s = torch.where(close, torch.maximum(sx, sy), torch.where(v == x.v, sx, sy))
        return self.settle(Value(v, b, s), (x, y))

    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """where: an undecided condition admits both branches."""
        v = torch.where(condition.v, x.v, y.v)
        if condition.exact and x.exact and y.exact:
            return Value(v)
        bx, by = x.bound(), y.bound()
        b, s = torch.where(condition.v, bx, by), torch.where(condition.v, x.variance(), y.variance())
        if not condition.exact:
            other = torch.where(condition.v, y.v, x.v)
            apart = (other - v).abs() + torch.where(condition.v, by, bx)
            apart = torch.where(torch.isnan(apart), INF, apart)
            apart = torch.where((other == v) & torch.isinf(v), torch.zeros_like(apart), apart)
            b = torch.where(condition.b > 0, torch.maximum(b, apart), b)
            s = torch.where(condition.b > 0, torch.maximum(s, apart ** 2), s)
        if not bool((b > 0).any()):
            return Value(v)
        return Value(v, b, s)

    def compare(self, x: Value, y: Value, v: Tensor) -> Value:
        """The outcome v of a comparison; undecided where both could be equal within the budget."""
        x, y = _real(x), _real(y)
        if x.exact and y.exact:
            return Value(v)
        return undecided(v, torch.isfinite(x.v) & torch.isfinite(y.v)
                         & ((x.v - y.v).abs() <= x.bound() + y.bound()) & (x.bound() + y.bound() > 0)
                         | (x.bound() == INF) | (y.bound() == INF))

    # ---- sums ----

    def sum_of(self, total: Tensor, size: Tensor, squares: Tensor, count, bound: Optional[Tensor],
               variance: Optional[Tensor], walk: Optional[Tensor] = None, products: bool = False) -> Value:
        """A sum in any order from what its terms add up to: values, sizes, squares, own budgets."""
        u, n = self.u, count
        self.note_sum(n)
        b = bound if bound is not None else torch.zeros_like(total)
        s = variance if variance is not None else torch.zeros_like(total)
        more = (n - 1.0 if not products else n * 1.0)
        added = n * self.precision.added * (size > 0)
        b = b + added + more * u * (size + b)
        random = n * total ** 2 / 3 + n * squares / 6 + total ** 2
        if walk is not None:
            random = torch.maximum(random, walk)
        s = s + added ** 2 + (RMS * u) ** 2 * random * (more > 0 if isinstance(more, Tensor) else 1.0)
        s = self.coherent(total, size, squares, n, s)
        if products and self.precision.tensor_cores:
            b, s = self._tensor_core(total, size, squares, n, b, s)
        return Value(total, b, s)

    def note_sum(self, count) -> None:
        if isinstance(count, Tensor):
            count = float(count.max()) if count.numel() else 1.0
        self.longest = max(self.longest, float(count))

    def coherent(self, total: Tensor, size: Tensor, squares: Tensor, n, s: Tensor) -> Tensor:
        """Equal terms, or many that are tiny beside one: each addition loses much the same."""
        u, whole = self.u, total.abs()
        spread = squares / n - (total / n) ** 2
        small = (size - squares.clamp(min=0).sqrt()).clamp(min=0)
        # Within a few percent of each other the terms may be one or two numbers, as bf16 inputs often are.
        equal = spread <= 16 * u * u * total ** 2 + _ALIKE ** 2 * (total / n) ** 2
        swamped = small <= 8 * n * u * whole
        lost = torch.where(equal, n * u * whole, torch.minimum(small, n * u * whole))
        long = (equal | swamped) & (torch.as_tensor(n) >= _COHERENT_TERMS)
        return torch.where(long, torch.maximum(s, 0.25 * lost ** 2), s)

    def _tensor_core(self, v: Tensor, size: Tensor, squares: Tensor, n, b: Tensor, s: Tensor):
        """Hopper: products in groups of 16, aligned and cut off, the running sum rounded toward zero."""
        u = self.u
        groups = torch.ceil(torch.as_tensor(n, dtype=torch.float64) / _GROUP)
        b = b + groups * 2 * u * size + n * u * size
        rms = 2 * 0.849 * u
        s = s + rms ** 2 * groups * (v ** 2 / 3 + squares / 6) + (0.72 * u * groups * v) ** 2
        return b, s

    def sum(self, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
        """The sum over dims."""
        if x.v.ndim == 0 or not len(dims):
            return x
        dims = [d % x.v.ndim for d in dims]
        n = 1
        for d in dims:
            n *= x.v.shape[d]
        add: Linear = lambda t: t.sum(dims, keepdim=keepdim)
        v = add(x.v)
        if n <= 1:
            return x.map(add)
        size = add(x.v.abs())
        if x.exact and _integral(x.v) and bool((size < 1 / self.u).all()):
            return Value(v)
        order = [d for d in range(x.v.ndim) if d not in dims] + dims
        flat = x.v.permute(order).reshape(*[x.v.shape[d] for d in order[: x.v.ndim - len(dims)]], n)
        walk = (flat.cumsum(-1) ** 2).sum(-1).reshape(v.shape)
        b = None if x.exact else add(x.b)
        s = None if x.exact else add(x.s)
        r = self.sum_of(v, size, add(x.v ** 2), float(n), b, s, walk)
        return self.settle_reduced(r, size, x, add)

    def settle_reduced(self, r: Value, size: Tensor, x: Value, add: Linear) -> Value:
        overflow = (size > self.precision.max) & torch.isfinite(size)
        finite = torch.isfinite(r.v)
        if bool(finite.all()) and _all_finite(r.b) and not bool(overflow.any()):
            return r
        tainted = add((x.bound() == INF).double()) > 0
        from_finite = add((~torch.isfinite(x.v)).double()) == 0
        unknown = overflow | tainted | (~finite & from_finite) | (finite & torch.isnan(r.b))
        return self._with_unknown(r, unknown)

    def mean(self, x: Value, dims: Sequence[int], keepdim: bool) -> Value:
        n = 1
        for d in dims:
            n *= x.v.shape[d] if x.v.ndim else 1
        return self.scaled(self.sum(x, dims, keepdim), 1.0 / n if n else float("nan"))

    def scaled(self, x: Value, factor: float) -> Value:
        """Times a constant, or divided by its inverse: two roundings unless a power of two."""
        x = _real(x)
        mantissa = torch.frexp(torch.tensor(factor, dtype=torch.float64)).mantissa.item()
        v = x.v * factor
        b, s = (None, None) if x.exact else (x.b * abs(factor), x.s * factor ** 2)
        if abs(mantissa) == 0.5:
            return Value(v, b, s)
        if b is None:
            b, s = torch.zeros_like(v), torch.zeros_like(v)
        return self.settle(self.rounded(v, b, s, 2, RMS * 1.5), (x,))

    def linear(self, x: Value, add: Linear, count) -> Value:
        """Any sum whose terms are elements of x with weight 1 (scatter, index_add): `add` applies it."""
        v, size = add(x.v), add(x.v.abs())
        if x.exact and _integral(x.v) and bool((size < 1 / self.u).all()):
            return Value(v)
        b = None if x.exact else add(x.b)
        s = None if x.exact else add(x.s)
        n = count.clamp(min=1) if isinstance(count, Tensor) else max(1.0, float(count))
        r = self.sum_of(v, size, add(x.v ** 2), n, b, s)
        if x.exact:  # one term is moved, not rounded
            single = torch.as_tensor(n).expand_as(r.v) <= 1
            r = Value(r.v, torch.where(single, 0.0, r.b), torch.where(single, 0.0, r.s))
        return self.settle_reduced(r, size, x, add)

    def product(self, x: Value, y: Value, op: Bilinear, count, parts: Optional[Callable] = None) -> Value:
        """A sum of products, bilinear in x and y: matmul, convolution. `count`: terms of each element."""
        ax, ay = x.v.abs(), y.v.abs()
        v, size = op(x.v, y.v), op(ax, ay)
        if x.exact and y.exact and _integral(x.v) and _integral(y.v) and bool((size < 1 / self.u).all()):
            return Value(v)
        xb, yb = x, y
        if self.precision.tf32:
            xb, yb = self._tf32(x), self._tf32(y)
        bound = variance = None
        x2, y2 = x.v ** 2, y.v ** 2
        if not (xb.exact and yb.exact):
            bx, by, sx, sy = xb.bound(), yb.bound(), xb.variance(), yb.variance()
            bound = (op(ax + bx, ay + by) - size).clamp(min=0)
            variance = torch.zeros_like(v)
            if not xb.exact:
                variance = variance + op(sx, y2 + sy)
            if not yb.exact:
                variance = variance + op(x2, sy)
            cut = (xb is not x) + (yb is not y)
            variance = variance + (cut * MEAN * LARGEST * v) ** 2
        walk = self._walk(x, y, parts, count) if parts is not None else None
        r = self.sum_of(v, size, op(x2, y2), count, bound, variance, walk, products=True)
        overflow = (size > self.precision.max) & torch.isfinite(size)
        finite = torch.isfinite(v)
        if bool(finite.all()) and _all_finite(r.b) and not bool(overflow.any()):
            return r
        one_x, one_y = torch.ones_like(x.v), torch.ones_like(y.v)
        touched = lambda a, c: op(a.double(), one_y) + op(one_x, c.double()) > 0
        tainted = touched(x.bound() == INF, y.bound() == INF)
        from_finite = ~touched(~torch.isfinite(x.v), ~torch.isfinite(y.v))
        unknown = overflow | tainted | (~finite & from_finite) | (finite & torch.isnan(r.b))
        return self._with_unknown(r, unknown)

    def _tf32(self, x: Value) -> Value:
        """Operands with 11 significand bits, where a kernel may do so: rounded, or cut off as the hardware
        does."""
        wider = (cut_off(x.v) != x.v) | (x.bound() > 0)
        if not bool(wider.any()):
            return x
        most = LARGEST * x.v.abs() * wider
        return Value(x.v, x.bound() * (1 + LARGEST) + most, x.variance() + (RMS * most) ** 2)

    def _walk(self, x: Value, y: Value, parts: Callable, count) -> Tensor:
        """The sum of squared partial sums, followed in a few parts."""
        partial, walk = None, None
        pieces: List[Tensor] = parts(x.v, y.v, _WALK_PARTS)
        for piece in pieces:
            partial = piece if partial is None else partial + piece
            walk = partial ** 2 if walk is None else walk + partial ** 2
        return walk * (count / len(pieces))

    def variance(self, x: Value, dims: Sequence[int], correction: float,
                 keepdim: bool) -> Tuple[Value, Value]:
        """Variance and mean: two passes, Welford's recurrence, merged or shifted moments
        (docs/numerics.md)."""
        dims = [d % max(1, x.v.ndim) for d in dims]
        n = 1
        for d in dims:
            n *= x.v.shape[d] if x.v.ndim else 1
        mean = self.mean(x, dims, keepdim=True)
        # About the mean the sum does not change at first order when the mean moves.
        centre = Value(mean.v)
        deviation = self.sub(x, centre)
        squares = self.sum(self.square(deviation), dims, keepdim=True)
        u, m = self.u, squares.v.clamp(min=0)
        about_zero = m + n * mean.v ** 2
        welford = 2 * n * u * (about_zero * m).sqrt() + n ** 2 * u ** 2 * about_zero / 4
        shifted = n * mean.bound() ** 2
        b = squares.bound() + welford + shifted
        s = squares.variance() + (RMS * u) ** 2 * (about_zero * m + n * m ** 2) + n * mean.variance() ** 2
        total = self.settle(Value(squares.v, b, s), (squares,))
        divisor = max(0.0, n - correction)
        result = self.scaled(total, 1.0 / divisor) if divisor else Value(total.v / 0.0)
        if not keepdim:
            shape = [e for d, e in enumerate(x.v.shape) if d not in dims]
            reshape: Linear = lambda t: t.reshape(shape)
            return result.map(reshape), mean.map(reshape)
        return result, mean


def _real(x: Value) -> Value:
    """Integers and booleans among floats are numbers."""
    return x if x.v.is_floating_point() else Value(x.v.double(), x.b, x.s)


def undecided(v: Tensor, open_: Tensor) -> Value:
    """A bool or integer result of which some elements could be otherwise."""
    if not bool(open_.any()):
        return Value(v)
    b = open_.expand(v.shape).to(torch.float64)
    return Value(v, b, b)
