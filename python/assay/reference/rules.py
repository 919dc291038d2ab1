"""The table of rules: how each ATen operator passes values and budgets on.

A rule takes the budget's evaluation (`run`) and the operator's arguments by name, and returns a `Value`, a
tensor that is exact, or a tuple of these. In-place and `out=` forms use the rule of the functional form.
Operators without a rule are decomposed by torch's own decompositions; what is left is perturbed.
"""
from typing import Any, Callable, Dict

import torch

from .arithmetic import Value, undecided
from .functions import AS_DOCUMENTED, LOG_SIGMOID, TABLE, Function
from .precision import INF

Tensor = torch.Tensor
Rule = Callable[[Any, Dict[str, Any]], Any]

RULES: Dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(made: Rule) -> Rule:
        for name in names:
            RULES[name] = made
        return made

    return register


# Elements that move unchanged: the operator is applied to values, bounds and variances alike.
MOVES = {
    "clone", "cat", "stack", "constant_pad_nd", "roll", "flip", "repeat", "tril", "triu", "unfold_copy",
    "im2col", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "reflection_pad1d", "reflection_pad2d",
    "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d", "slice_scatter",
    "select_scatter", "diagonal_scatter", "as_strided_scatter", "select_backward", "slice_backward",
    "diagonal_backward", "expand_copy", "permute_copy", "view_copy", "transpose_copy", "squeeze_copy",
    "unsqueeze_copy", "slice_copy", "select_copy", "split_copy", "unbind_copy", "contiguous", "diag_embed",
    "rot90", "repeat_interleave", "_reshape_copy", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "zeros_like", "ones_like", "empty_like", "new_zeros", "new_ones",
    "new_empty", "new_full", "full_like", "zero", "fill", "new_empty_strided", "empty_strided", "resize",
    "conj_physical", "tensor_split", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes",
    "split_with_sizes_copy", "trace_copy", "index_fill", "_unsafe_view",
}
# Of these, the results take nothing from the elements of the operand.
FILLS = {"zeros_like", "ones_like", "empty_like", "new_zeros", "new_ones", "new_empty", "new_full",
         "full_like", "zero", "fill", "new_empty_strided", "empty_strided"}
# Of integers the result is an integer, whatever is undecided about them.
INTEGER_ARITHMETIC = {"add", "sub", "rsub", "mul", "floor_divide", "remainder", "fmod", "neg", "abs",
                      "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "bitwise_left_shift",
                      "bitwise_right_shift", "__lshift__", "__rshift__"}
# Elements that are looked up by an index.
LOOKUPS = {"gather", "index_select", "index", "_unsafe_index", "embedding", "take", "masked_select"}


# ---- arithmetic ----


@rule("add", "add_relu")
def _add(run, a):
    x, y = run.read(a["self"]), run.read(a["other"])
    alpha = a.get("alpha", 1)
    if alpha not in (1, -1):
        y = run.math.mul(y, run.read(float(alpha)))
    return run.math.add(x, y, -1.0 if alpha == -1 else 1.0)


@rule("sub", "subtract")
def _sub(run, a):
    return _add(run, {**a, "alpha": -a.get("alpha", 1)})


@rule("rsub")
def _rsub(run, a):
    return _sub(run, {"self": a["other"], "other": a["self"], "alpha": a.get("alpha", 1)})


@rule("mul", "multiply")
def _mul(run, a):
    if a["self"] is a["other"]:
        return run.math.square(run.read(a["self"]))
    return run.math.mul(run.read(a["self"]), run.read(a["other"]))


@rule("div", "divide", "true_divide")
def _div(run, a):
    mode = a.get("rounding_mode")
    if mode is None and isinstance(a["other"], (int, float)) and a["other"] != 0:
        return run.math.scaled(run.read(a["self"]), 1.0 / a["other"])
    quotient = run.math.div(run.read(a["self"]), run.read(a["other"]))
    if mode is None:
        return quotient
    return run.math.monotone(quotient, torch.floor if mode == "floor" else torch.trunc)


@rule("floor_divide")
def _floor_divide(run, a):
    return _div(run, {**a, "rounding_mode": "floor"})


@rule("reciprocal")
def _reciprocal(run, a):
    return run.math.div(run.read(1.0), run.read(a["self"]))


@rule("neg", "negative")
def _neg(run, a):
    x = run.read(a["self"])
    return Value(-x.v, x.b, x.s)


@rule("square")
def _square(run, a):
    return run.math.square(run.read(a["self"]))


@rule("pow")
def _pow(run, a):
    base, exponent = a["self"], a["exponent"]
    if isinstance(exponent, (int, float)):
        return power(run, run.read(base), float(exponent))
    x, y = run.read(base), run.read(exponent)
    v = x.v ** y.v
    b, s = torch.zeros_like(v), torch.zeros_like(v)
    for dx in (-1, 1):
        for dy in (-1, 1):
            moved = ((x.v + dx * x.bound()) ** (y.v + dy * y.bound()) - v).abs()
            b = torch.maximum(b, torch.where(torch.isnan(moved), INF, moved))
    slope_x, slope_y = v * y.v / x.v, v * x.v.abs().log()
    s = torch.where(x.bound() > 0, slope_x ** 2 * x.variance(), 0.0) + \
        torch.where(y.bound() > 0, slope_y ** 2 * y.variance(), 0.0)
    # powf documents 4 ulp; __powf is exp2(y * __log2f(x)), amplified by the exponent.
    relative: Any = 8.0
    if run.math.precision.fast:
        amplified = y.v.abs() * (x.v.abs().log2().abs() * 5 + 4)
        relative = 8 + 0.7 * torch.where(torch.isfinite(amplified), amplified, 0.0)
    return run.math.settle(run.math.rounded(v, b, s, relative, relative * 0.35), (x, y))


def power(run, x: Value, exponent: float) -> Value:
    math = run.math
    if exponent == 0:
        return Value(torch.ones_like(x.v))
    if exponent == 1:
        return x
    if exponent == 2:
        return math.square(x)
    if exponent == 0.5:
        return apply(run, x, TABLE["sqrt"])
    if exponent == -0.5:
        return apply(run, x, TABLE["rsqrt"])
    whole = exponent == int(exponent)
    steps = abs(exponent) + (2 if exponent < 0 else 0) if whole and abs(exponent) <= 16 else 8 + abs(exponent)
    v = x.v ** exponent
    b = s = None
    if not x.exact:
        b, s = math.reach(x, v, lambda t: t ** exponent)
        if exponent < 0:
            b = torch.where(x.b >= x.v.abs(), INF, b)
    return math.settle(math.rounded(v, b, s, steps, 0.425 * steps ** 0.5), (x,), pole=exponent < 0)


@rule("addcmul")
def _addcmul(run, a):
    product = run.math.mul(run.read(a["tensor1"]), run.read(a["tensor2"]))
    return _scaled_addition(run, a, product)


@rule("addcdiv")
def _addcdiv(run, a):
    return _scaled_addition(run, a, run.math.div(run.read(a["tensor1"]), run.read(a["tensor2"])))


def _scaled_addition(run, a, term: Value) -> Value:
    factor = a.get("value", 1)
    if factor != 1:
        term = run.math.mul(term, run.read(float(factor)))
    return run.math.add(run.read(a["self"]), term)


@rule("lerp")
def _lerp(run, a):
    x, end = run.read(a["self"]), run.read(a["end"])
    return run.math.add(x, run.math.mul(run.read(a["weight"]), run.math.sub(end, x)))


# ---- functions ----


def apply(run, x: Value, function: Function) -> Value:
    return run.math.function(x, function.value, function.error, function.lipschitz, function.overflows,
                             function.low)


def _register_function(name: str, function: Function) -> None:
    documented = AS_DOCUMENTED.get(name, function)
    RULES[name] = lambda run, a: apply(run, run.read(a["self"]), documented if run.documented else function)


for _name, _function in TABLE.items():
    _register_function(_name, _function)
for _name, _value in {
    "relu": torch.relu, "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc,
    "sign": torch.sign, "sgn": torch.sgn, "relu6": torch.nn.functional.relu6,
}.items():
    RULES[_name] = lambda run, a, value=_value: run.math.monotone(run.read(a["self"]), value)


@rule("log_sigmoid_forward")
def _log_sigmoid(run, a):
    return apply(run, run.read(a["self"]), LOG_SIGMOID), run.again(a)[1]


@rule("log_sigmoid_backward")
def _log_sigmoid_backward(run, a):
    """1 - sigmoid(x): what is left for a large x is a rounding of 1."""
    share = apply(run, run.read(a["self"]), TABLE["sigmoid"])
    return run.math.mul(run.read(a["grad_output"]), run.math.sub(run.constant(1.0), share))


@rule("hardsigmoid")
def _hardsigmoid(run, a):
    """x / 6 + 1 / 2, which loses a rounding of 1 / 2 near -3."""
    line = run.math.add(run.math.scaled(run.read(a["self"]), 1 / 6), run.constant(0.5))
    return run.math.monotone(line, lambda t: t.clamp(0.0, 1.0))


@rule("hardswish")
def _hardswish(run, a):
    return run.math.mul(run.read(a["self"]), _hardsigmoid(run, a))


@rule("round")
def _round(run, a):
    decimals = a.get("decimals", 0)
    return run.math.monotone(run.read(a["self"]), lambda t: torch.round(t, decimals=decimals))


@rule("remainder", "fmod")
def _remainder(run, a):
    x, y = run.read(a["self"]), run.read(a["other"])
    v = getattr(torch, run.operator)(x.v, y.v)
    if x.exact and y.exact:
        return run.math.narrow(v.double())
    b = x.bound() + (x.v / y.v).abs().ceil() * y.bound()
    # Across a multiple of the divisor the result jumps by the divisor.
    distance = torch.minimum(v.abs(), (y.v.abs() - v.abs()).abs())
    jump = torch.where(distance <= b, y.v.abs(), 0.0)
    return run.math.settle(Value(v, b + jump, x.variance() + jump ** 2), (x, y))


# ---- choices ----


@rule("maximum", "fmax")
def _maximum(run, a):
    return run.math.extreme(run.read(a["self"]), run.read(a["other"]), True)


@rule("minimum", "fmin")
def _minimum(run, a):
    return run.math.extreme(run.read(a["self"]), run.read(a["other"]), False)


@rule("hardtanh")
def _hardtanh(run, a):
    return _clamp(run, {"self": a["self"], "min": a.get("min_val", -1.0), "max": a.get("max_val", 1.0)})


@rule("clamp", "clip")
def _clamp(run, a):
    x, low, high = run.read(a["self"]), a.get("min"), a.get("max")
    if low is not None:
        x = run.math.extreme(x, run.constant(low), True)
    if high is not None:
        x = run.math.extreme(x, run.constant(high), False)
    return x


@rule("clamp_min")
def _clamp_min(run, a):
    return run.math.extreme(run.read(a["self"]), run.constant(a["min"]), True)


@rule("clamp_max")
def _clamp_max(run, a):
    return run.math.extreme(run.read(a["self"]), run.constant(a["max"]), False)


@rule("where")
def _where(run, a):
    if "self" not in a:
        return NotImplemented
    condition = run.raw(a["condition"])
    # Elements are moved: what the result's type rounds is the same whatever was chosen.
    return run.math.choose(Value(condition.v.bool(), condition.b, condition.s), run.moved(a["self"]),
                           run.moved(a["other"]))


@rule("masked_fill")
def _masked_fill(run, a):
    return _where(run, {"condition": a["mask"], "self": a["value"], "other": a["self"]})


@rule("threshold_backward")
def _threshold_backward(run, a):
    x = run.read(a["self"])
    keep = run.math.compare(x, run.constant(a["threshold"]), x.v > a["threshold"])
    return run.math.choose(keep, run.moved(a["grad_output"]), run.constant(0.0))


_COMPARISONS = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt,
                "ge": torch.ge}
for _name, _compare in _COMPARISONS.items():
    def _comparison(run, a, compare=_compare):
        x, y = run.read(a["self"]), run.constant(a["other"])
        return run.math.compare(x, y, compare(x.v, y.v))

    RULES[_name] = _comparison


def _logical(function):
    def made(run, a):
        x, y = run.raw(a["self"]), run.raw(a["other"])
        v = function(x.v, y.v)
        if x.exact and y.exact:
            return v
        # Undecided unless the decided operand settles the outcome.
        truth_x, truth_y = x.v.bool(), y.v.bool()
        open_x, open_y = x.bound() > 0, y.bound() > 0
        if function in (torch.logical_and, torch.bitwise_and):
            open_ = (open_x & (truth_y | open_y)) | (open_y & (truth_x | open_x))
        elif function in (torch.logical_or, torch.bitwise_or):
            open_ = (open_x & (~truth_y | open_y)) | (open_y & (~truth_x | open_x))
        else:
            open_ = open_x | open_y
        return undecided(v, open_)

    return made


for _name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"):
    RULES[_name] = _logical(getattr(torch, _name))
RULES["__and__"] = RULES["bitwise_and"]
RULES["__or__"] = RULES["bitwise_or"]


@rule("logical_not", "bitwise_not")
def _not(run, a):
    x = run.raw(a["self"])
    return Value(getattr(torch, run.operator)(x.v), x.b, x.s)


@rule("isnan", "isinf", "isfinite", "isneginf", "isposinf", "signbit")
def _classify(run, a):
    return getattr(torch, run.operator)(run.raw(a["self"]).v)


@rule("nan_to_num")
def _nan_to_num(run, a):
    x = run.read(a["self"])
    declared = torch.finfo(run.shadows.declared(a["self"])) if x.v.is_floating_point() else None
    high = a.get("posinf") if a.get("posinf") is not None else (declared.max if declared else None)
    low = a.get("neginf") if a.get("neginf") is not None else (declared.min if declared else None)
    v = torch.nan_to_num(x.v, a.get("nan"), high, low)
    return Value(v, x.b, x.s)


# ---- complex numbers, by their parts ----


def complex_rule(run, name: str, a) -> Any:
    """add, sub and mul of complex numbers, and making them; NotImplemented for anything else."""
    if name in ("polar", "complex"):
        first, second = run.read(a.get("abs", a.get("real"))), run.read(a.get("angle", a.get("imag")))
        if name == "complex":
            return first, second
        return (run.math.mul(first, apply(run, second, TABLE["cos"])),
                run.math.mul(first, apply(run, second, TABLE["sin"])))
    if name not in ("mul", "add", "sub") or a.get("alpha", 1) != 1:
        return NotImplemented
    (p, q), (r, s) = run.parts(a["self"]), run.parts(a["other"])
    math = run.math
    if name == "mul":
        return math.sub(math.mul(p, r), math.mul(q, s)), math.add(math.mul(p, s), math.mul(q, r))
    sign = 1.0 if name == "add" else -1.0
    return math.add(p, r, sign), math.add(q, s, sign)
