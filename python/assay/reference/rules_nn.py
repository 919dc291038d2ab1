"""Rules of fused neural-network operators: normalisation, pooling, losses, lookups."""
from typing import Any, List

import torch

from .arithmetic import Value
from .functions import TABLE
from .precision import INF, RMS
from .rules import apply, rule

Tensor = torch.Tensor


def _normalised(run, x: Value, mean: Value, rstd: Value, weight: Any, bias: Any, shape: List[int],
                count: float, folded: bool) -> Value:
    """(x - mean) rstd w + b. `folded`: x (rstd w) + (b - mean rstd w), which is usual, is as good."""
    math = run.math
    y = math.mul(math.sub(x, mean), rstd)
    if not y.exact:
        # However little is known of the variance, a normalised element of n is at most sqrt(n).
        most = y.v.abs() + count ** 0.5 * (1 + 8 * math.u)
        most = torch.where(torch.isfinite(y.v) & (mean.bound() != INF), most, INF)  # x itself may have overflowed
        y = Value(y.v, torch.minimum(y.b, most), torch.minimum(y.s, most ** 2))
    scale = rstd.v.abs()
    if weight is not None:
        w = run.read(weight).map(lambda t: t.reshape(shape))
        y = math.mul(y, w)
        scale = scale * w.v.abs()
    if bias is not None:
        y = math.add(y, run.read(bias).map(lambda t: t.reshape(shape)))
    if folded:
        size = (x.v.abs() + mean.v.abs()) * scale
        y = Value(y.v, y.bound() + 2 * math.u * size, y.variance() + 2 * (RMS * math.u * size) ** 2)
    return y


def _inverse_deviation(run, variance: Value, eps: float) -> Value:
    return apply(run, run.math.add(variance, run.constant(eps)), TABLE["rsqrt"])


@rule("native_layer_norm")
def _layer_norm(run, a):
    x = run.read(a["input"])
    shape = list(a["normalized_shape"])
    dims = list(range(x.v.ndim - len(shape), x.v.ndim))
    variance, mean = run.math.variance(x, dims, 0.0, True)
    rstd = _inverse_deviation(run, variance, a["eps"])
    return _normalised(run, x, mean, rstd, a.get("weight"), a.get("bias"), shape,
                       float(x.v.shape[dims[0]:].numel()), False), mean, rstd


@rule("native_group_norm")
def _group_norm(run, a):
    given = run.read(a["input"])
    n, c, groups = a["N"], a["C"], a["group"]
    shape = given.v.shape
    x = given.map(lambda t: t.reshape(n, groups, -1))
    variance, mean = run.math.variance(x, [2], 0.0, True)
    rstd = _inverse_deviation(run, variance, a["eps"])
    spread = lambda t: t.expand(n, groups, c // groups).reshape(n, c, *[1] * (len(shape) - 2))
    affine = [1, c] + [1] * (len(shape) - 2)
    y = _normalised(run, given, mean.map(spread), rstd.map(spread), a.get("weight"), a.get("bias"), affine,
                    float(x.v.shape[2]), True)
    flat = lambda t: t.reshape(n, groups)
    return y, mean.map(flat), rstd.map(flat)


@rule("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
      "_native_batch_norm_legit_functional", "_batch_norm_with_update", "_batch_norm_no_update")
def _batch_norm(run, a):
    x = run.read(a["input"])
    dims = [0] + list(range(2, x.v.ndim))
    shape = [1, -1] + [1] * (x.v.ndim - 2)
    training = a.get("training", run.operator == "_batch_norm_with_update")
    training = training and not run.operator.endswith(("_no_training", "_no_update"))
    if not training:
        mean = run.read(a["running_mean"]).map(lambda t: t.reshape(shape))
        variance = run.read(a["running_var"]).map(lambda t: t.reshape(shape))
        rstd = _inverse_deviation(run, variance, a["eps"])
        y = _normalised(run, x, mean, rstd, a.get("weight"), a.get("bias"), shape, INF, True)
        empty = torch.zeros(0, dtype=torch.float64)
        return (y, empty, empty.clone()) + _reserve(run)
    variance, mean = run.math.variance(x, dims, 0.0, True)
    rstd = _inverse_deviation(run, variance, a["eps"])
    count = x.v.numel() / max(1, x.v.shape[1])
    y = _normalised(run, x, mean, rstd, a.get("weight"), a.get("bias"), shape, count, True)
    flat = lambda t: t.reshape(-1)
    updated = []
    for name, now in (("running_mean", mean), ("running_var", variance)):
        state = a.get(name)
        if state is None:
            continue
        if name == "running_var":
            now = run.math.scaled(now, count / max(1.0, count - 1))
        old = run.math.mul(run.read(state), run.constant(1 - a["momentum"]))
        value = run.math.add(old, run.math.mul(now.map(flat), run.constant(a["momentum"])))
        updated.append(value)
        if not run.operator.endswith("_functional"):
            run.write(state, value)
    extra = tuple(updated) if run.operator.endswith("_functional") else _reserve(run)
    return (y, mean.map(flat), rstd.map(flat)) + extra


def _reserve(run) -> tuple:
    """The fourth result of some forms."""
    has_one = run.operator.startswith(("_batch_norm_with", "_batch_norm_no"))
    return (torch.zeros(0, dtype=torch.uint8),) if has_one else ()


# ---- pooling ----


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
      "adaptive_avg_pool1d")
def _average_pool(run, a):
    x = run.read(a["self"])
    pool = lambda t: run.again({**a, "self": t})
    v = pool(x.v)
    if "kernel_size" in a:
        kernel = a["kernel_size"]
        extents = kernel if isinstance(kernel, (list, tuple)) else [kernel]
        rank = int(run.operator.rstrip("d")[-1])
        count = float(extents[0]) ** rank if len(extents) == 1 else float(torch.tensor(extents).prod())
    else:
        sizes = list(zip(x.v.shape[-len(a["output_size"]):], a["output_size"]))
        count = 1.0
        for whole, part in sizes:
            count *= -(-whole // part) + 1
    u, size = run.math.u, pool(x.v.abs())
    b = (pool(x.bound()) if not x.exact else 0.0) + (count + 2) * u * size
    s = (pool(x.variance()) if not x.exact else 0.0) + (RMS * u) ** 2 * (count / 2 + 3) * \
        (v ** 2 + pool(x.v ** 2) / count)
    return run.math.settle(Value(v, b, s), ())


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _max_pool(run, a):
    x = run.read(a["self"])
    pool = lambda t: run.again({**a, "self": t})
    v, index = pool(x.v)
    if x.exact:
        return Value(v), index
    b = torch.maximum(pool(x.v + x.b)[0] - v, v - pool(x.v - x.b)[0])
    s = pool(x.s)[0]
    value = Value(v, torch.where(torch.isnan(b), 0.0, b), s)
    return value, _window_index(a, x, v, index)


def _window_index(a, x: Value, v: Tensor, index: Tensor) -> Value:
    """The place of a window's largest element, undecided where another one comes within the bounds."""
    open_ = x.b.amax() > 0
    if x.v.ndim == 4 and "kernel_size" in a:
        pair = lambda n, default: [(list(a.get(n) or default) * 2)[i] for i in (0, 1)]
        kernel = pair("kernel_size", [1])
        pads, steps = pair("padding", [0]), pair("stride", kernel)
        if not a.get("ceil_mode"):
            border = [pads[1], pads[1], pads[0], pads[0]]
            windows = lambda t: torch.nn.functional.unfold(
                torch.nn.functional.pad(t, border, value=-1e300), kernel, a.get("dilation", 1), 0, steps
            ).reshape(x.v.shape[0], x.v.shape[1], kernel[0] * kernel[1], -1)
            high, low = windows(x.v + x.b), windows(x.v - x.b)
            open_ = ((high >= low.amax(2, keepdim=True)).sum(2) > 1).reshape(v.shape)
    b = open_.expand(v.shape).double() if open_.ndim else open_.double().expand(v.shape)
    return Value(index, b, b) if bool((b > 0).any()) else Value(index)


# ---- lookups of losses ----


@rule("nll_loss_forward")
def _nll_loss(run, a):
    x, target = run.read(a["self"]), a["target"]
    weight, reduction, ignored = a.get("weight"), a["reduction"], a["ignore_index"]
    if x.v.ndim == 1:
        x, target = x.map(lambda t: t.unsqueeze(0)), target.reshape(1)
    math = run.math
    kept = target != ignored
    place = torch.where(kept, target, 0).unsqueeze(1)
    picked = x.map(lambda t: t.gather(1, place).squeeze(1))
    loss = Value(-picked.v, picked.b, picked.s)
    scale = None
    if weight is not None:
        scale = run.read(weight).map(lambda t: t.gather(0, place.squeeze(1)))
        loss = math.mul(loss, scale)
    zero = lambda value: Value(torch.where(kept, value.v, 0.0), None if value.exact else
                               torch.where(kept, value.b, 0.0), None if value.exact else
                               torch.where(kept, value.s, 0.0))
    loss = zero(loss)
    if scale is None:
        total: Value = Value(kept.double().sum())
    else:
        total = math.sum(zero(scale), [0], False)
    if reduction == 0:
        shape = a["target"].shape
        return loss.map(lambda t: t.reshape(shape)), torch.zeros((), dtype=torch.float64)
    result = math.sum(loss, [0], False)
    return (math.div(result, total) if reduction == 1 else result), total


@rule("_fused_rms_norm")
def _rms_norm(run, a):
    x = run.read(a["input"])
    shape = list(a["normalized_shape"])
    dims = list(range(x.v.ndim - len(shape), x.v.ndim))
    eps = a.get("eps")
    if eps is None:
        eps = torch.finfo(run.shadows.declared(a["input"])).eps
    scale = _inverse_deviation(run, run.math.mean(run.math.square(x), dims, True), eps)
    y = run.math.mul(x, scale)
    if a.get("weight") is not None:
        y = run.math.mul(y, run.read(a["weight"]))
    return y, scale
