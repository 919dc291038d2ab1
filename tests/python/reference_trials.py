"""Simulated kernels against the budgets of PyTorch references.

Every operator is implemented on a `Machine`: f32 arithmetic on the CPU with one order of summation, and
perhaps one defect. Right machines must stay within the bound of `assay.reference.budget` for every element;
how many outputs of wrong ones leave it, or stand out by the size of their errors, is counted.
docs/numerics-torch.md has the table that this prints:

    python tests/python/reference_trials.py --seeds 8
"""

import argparse
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import numpy as np
import torch
import torch.nn.functional as F

from assay.reference.budget import BudgetEvaluation
from assay.reference.precision import Precision, half_ulp, round_to

Tensor = torch.Tensor
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
E4M3 = torch.float8_e4m3fn
ORDERS = ("in order", "reversed", "pairwise", "blocks", "shuffled")
COMMON = ("bf16 accumulator", "last term dropped", "f16 intermediates", "truncating store")
# Mean square of error / sigma from which the judge's statistics speak (kEnergyFactor with kNoiseFactor).
ENERGY = 4.0


@dataclass
class Machine:
    """f32 arithmetic, summed in some order; the other fields are defects or declared liberties."""

    order: str = "in order"
    rounds: bool = True  # makes the roundings that the reference declares
    variant: int = 0  # which of several sound algorithms
    accumulator: torch.dtype = F32
    middle: Optional[torch.dtype] = None  # every intermediate result is rounded to this
    drops: int = 0  # last terms of sums left out
    truncates: bool = False  # stores
    flaw: str = ""  # a defect of one operator

    def keep(self, x: Tensor) -> Tensor:
        """An intermediate result."""
        return x.to(self.middle).float() if self.middle is not None else x

    def cast(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """A rounding that the reference declares."""
        return x.to(dtype).float() if self.rounds else x

    def store(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if not self.truncates:
            return round_to(x.double(), dtype)
        if dtype == E4M3:
            return round_to(x.double() * (1 - 2.0 ** -4), dtype)
        nearest = x.to(dtype).double()
        beyond = nearest.abs() > x.double().abs()
        return torch.where(beyond, nearest - torch.sign(nearest) * 2 * half_ulp(x.double(), dtype), nearest)

    def sum(self, x: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
        x = x.movedim(dim, -1).float()
        if self.drops and x.shape[-1] > self.drops:
            x = x[..., : -self.drops]
        total = self._added(x)
        return total.unsqueeze(dim) if keepdim else total

    def _added(self, x: Tensor) -> Tensor:
        if self.accumulator != F32:
            total = torch.zeros_like(x[..., 0])
            for k in range(x.shape[-1]):
                total = (total + x[..., k]).to(self.accumulator).float()
            return total
        if self.order == "reversed":
            x = x.flip(-1)
        elif self.order == "shuffled":
            x = x[..., torch.randperm(x.shape[-1])]
        if self.order == "pairwise":
            while x.shape[-1] > 1:
                odd = x[..., -1:] if x.shape[-1] % 2 else None
                even = x[..., : x.shape[-1] // 2 * 2]
                x = even[..., ::2] + even[..., 1::2]
                x = x if odd is None else torch.cat([x, odd], -1)
            return x[..., 0]
        if self.order == "blocks" and x.shape[-1] > 32:
            parts = [self._sequence(part) for part in x.split(32, -1)]
            return self._sequence(torch.stack(parts, -1))
        return self._sequence(x)

    @staticmethod
    def _sequence(x: Tensor) -> Tensor:
        return torch.from_numpy(np.cumsum(x.numpy(), axis=-1, dtype=np.float32)[..., -1].copy())

    def mean(self, x: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
        return self.sum(x, dim, keepdim) / x.shape[dim]

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        if self.order == "tensor core":
            return self._tensor_core(a, b)
        if self.order == "in order" and self.accumulator == F32 and not self.drops:
            return a @ b
        if self.order == "blocks" and self.accumulator == F32 and not self.drops:
            total = torch.zeros(*a.shape[:-1], b.shape[-1])
            for p, q in zip(a.split(16, -1), b.split(16, -2)):
                total = total + p @ q
            return total
        return self.sum(a.unsqueeze(-2) * b.transpose(-2, -1).unsqueeze(-3))

    @staticmethod
    def _tensor_core(a: Tensor, b: Tensor) -> Tensor:
        """Hopper's mma: 16 products and the running sum, aligned and cut off, then rounded toward zero."""
        total = torch.zeros(*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2],
                            b.shape[-1]).double()
        for p, q in zip(a.double().split(16, -1), b.double().split(16, -2)):
            terms = p.unsqueeze(-1) * q.unsqueeze(-3)
            terms = torch.cat([total.unsqueeze(-2), terms], -2)
            exponent = torch.frexp(terms.abs().amax(-2, keepdim=True)).exponent - 1
            unit = torch.ldexp(torch.ones_like(terms[..., :1, :]), exponent - 25)
            total = ((terms / unit).trunc() * unit).sum(-2)
            nearest = total.float().double()
            step = torch.ldexp(torch.ones_like(total), torch.frexp(total).exponent - 24)
            total = torch.where(nearest.abs() > total.abs(), nearest - torch.sign(total) * step, nearest)
        return total.float()

    def variance(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        """Of rows: two passes, Welford, or shifted by the first element; `one pass` is the flaw."""
        mean = self.mean(x, -1, True)
        if self.flaw == "one-pass variance":
            return (self.mean(x * x, -1, True) - mean * mean).clamp(min=0), mean
        if self.variant == 1:
            m, total = torch.zeros_like(mean), torch.zeros_like(mean)
            for k in range(x.shape[-1]):
                delta = x[..., k : k + 1] - m
                m = m + delta / (k + 1)
                total = total + delta * (x[..., k : k + 1] - m)
            return total / x.shape[-1], m
        if self.variant == 2:
            shift = x[..., :32].mean(-1, keepdim=True)
            off = self.mean(x - shift, -1, True)
            return self.mean((x - shift) ** 2, -1, True) - off * off, shift + off
        return self.mean(self.keep((x - mean) ** 2), -1, True), mean

    def softmax(self, x: Tensor) -> Tensor:
        if self.flaw == "no maximum":
            e = torch.exp(x)
            return e / self.sum(e, -1, True)
        if self.variant == 1:  # online
            top, total = torch.full_like(x[..., :1], -float("inf")), torch.zeros_like(x[..., :1])
            for k in range(x.shape[-1]):
                new = torch.maximum(top, x[..., k : k + 1])
                total = total * torch.exp(top - new) + torch.exp(x[..., k : k + 1] - new)
                top = new
            return torch.exp(x - top) / total
        if self.variant == 2:  # in powers of two, times a reciprocal
            log2e = torch.tensor(1.4426950408889634, dtype=F32)
            e = torch.exp2(x * log2e - x.amax(-1, keepdim=True) * log2e)
            return e * (1 / self.sum(e, -1, True))
        e = self.keep(torch.exp(x - x.amax(-1, keepdim=True)))
        return e / self.sum(e, -1, True)


@dataclass
class Case:
    name: str
    reference: Callable
    inputs: Callable  # (torch.Generator, kind) -> list of tensors
    dtypes: List[torch.dtype]
    outputs: List[torch.dtype]
    kernel: Callable  # (Machine, *inputs in f32) -> output before the store, or a list
    variants: int = 1
    flaws: Dict[str, str] = field(default_factory=dict)
    precision: Precision = Precision()


KINDS = ("normal", "small", "large mean", "outliers", "positive", "heavy tail", "equal", "cancelling",
         "large")


def values(g: torch.Generator, shape: Tuple[int, ...], kind: str) -> Tensor:
    x = torch.randn(shape, generator=g, dtype=torch.float64)
    if kind == "small":
        return x * 2.0 ** -12
    if kind == "large mean":
        return x + 64
    if kind == "outliers":
        x[..., :: max(1, shape[-1] // 3)] *= 300
        return x
    if kind == "positive":
        return torch.rand(shape, generator=g, dtype=torch.float64)
    if kind == "heavy tail":
        return torch.sign(x) * torch.exp(1.5 * torch.randn(shape, generator=g, dtype=torch.float64))
    if kind == "equal":
        return torch.full(shape, 0.7, dtype=torch.float64) + (x * 1e-3 if shape[0] > 1 else 0)
    if kind == "cancelling":
        half = shape[-1] // 2
        x[..., half : 2 * half] = -x[..., :half].flip(-1)
        return x
    if kind == "large":
        return x * 200
    return x


def standard(*shapes: Tuple[int, ...]) -> Callable:
    """Inputs of these shapes; the second and later ones stay tame, as weights are."""

    def make(g: torch.Generator, kind: str) -> List[Tensor]:
        return [values(g, s, kind if i == 0 else "normal") for i, s in enumerate(shapes)]

    return make


CASES: List[Case] = []


def case(name: str, inputs: Callable, dtypes, outputs, kernel: Callable, **more) -> Callable:
    def register(reference: Callable) -> Callable:
        count = dtypes if isinstance(dtypes, list) else [dtypes]
        out = outputs if isinstance(outputs, list) else [outputs]
        CASES.append(Case(name, reference, inputs, count, out, kernel, **more))
        return reference

    return register


ROWS = (6, 200)


def _softmax_kernel(m: Machine, x: Tensor) -> Tensor:
    return m.softmax(x)


def _product(m: Machine, a: Tensor, b: Tensor) -> Tensor:
    return m.matmul(a, b)


for _dtype, _label in ((BF16, "bf16"), (F32, "f32")):
    case(f"softmax {_label}", standard(ROWS), _dtype, _dtype, _softmax_kernel, variants=3,
         flaws={"no maximum": "large"})(lambda x: torch.softmax(x, -1))
    case(f"layer norm {_label}", standard(ROWS, ROWS[1:], ROWS[1:]), [_dtype] * 3, _dtype,
         lambda *a: _layer_norm(*a), variants=3,
         flaws={"one-pass variance": "large mean", "eps outside the root": "small"})(
        lambda x, w, b: F.layer_norm(x, ROWS[1:], w, b, 1e-5))
    case(f"matmul {_label}", standard((8, 192), (192, 8)), [_dtype] * 2, _dtype,
         _product)(lambda a, b: a @ b)
    case(f"attention {_label}", standard((2, 24, 16), (2, 40, 16), (2, 40, 16)), [_dtype] * 3, _dtype,
         lambda m, q, k, v, d=_dtype: _attention(m, q, k, v, d), variants=3, flaws={"no scale": "normal"})(
        lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0])


def _layer_norm(m: Machine, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    variance, mean = m.variance(x)
    if m.flaw == "eps outside the root":
        scale = 1 / (torch.sqrt(variance) + 1e-5)
    else:
        scale = torch.rsqrt(m.keep(variance) + 1e-5)
    return (x - mean) * m.keep(scale) * w + b


def _attention(m: Machine, q: Tensor, k: Tensor, v: Tensor, dtype: torch.dtype) -> Tensor:
    scale = 1.0 if m.flaw == "no scale" else 16 ** -0.5
    scores = m.keep(m.matmul(q, k.transpose(-2, -1)) * scale)
    if m.variant == 1:  # the rounded probabilities before the division, as flash attention has them
        e = torch.exp(scores - scores.amax(-1, keepdim=True))
        return m.matmul(m.cast(e, dtype), v) / m.sum(e, -1, True)
    return m.matmul(m.cast(m.softmax(scores), dtype), v)


_MMA = Precision(tensor_cores=True)
case("matmul bf16, tensor cores", standard((8, 192), (192, 8)), [BF16] * 2, F32, _product,
     precision=_MMA)(lambda a, b: a.float() @ b.float())
case("attention bf16, tensor cores", standard((2, 24, 16), (2, 40, 16), (2, 40, 16)), [BF16] * 3, BF16,
     lambda m, q, k, v: _attention(m, q, k, v, BF16), variants=2, precision=_MMA)(
    lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0])
case("matmul f16", standard((8, 192), (192, 8)), [F16] * 2, F16, _product)(lambda a, b: a @ b)


@case("log softmax f32", standard(ROWS), F32, F32, lambda *a: _log_softmax(*a),
      flaws={"no maximum": "large"})
def _(x):
    return torch.log_softmax(x, -1)


def _log_softmax(m: Machine, x: Tensor) -> Tensor:
    top = 0.0 if m.flaw == "no maximum" else x.amax(-1, keepdim=True)
    return x - top - torch.log(m.sum(m.keep(torch.exp(x - top)), -1, True))


@case("logsumexp f32", standard(ROWS), F32, F32,
      lambda m, x: x.amax(-1) + torch.log(m.sum(m.keep(torch.exp(x - x.amax(-1, keepdim=True))))))
def _(x):
    return torch.logsumexp(x, -1)


@case("RMS norm bf16", standard(ROWS, ROWS[1:]), [BF16] * 2, BF16, lambda *a: _rms_norm(*a),
      flaws={"eps of 1e-4": "small", "scale in bf16": "normal"})
def _(x, w):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def _rms_norm(m: Machine, x: Tensor, w: Tensor) -> Tensor:
    scale = torch.rsqrt(m.mean(m.keep(x * x), -1, True) + (1e-4 if m.flaw == "eps of 1e-4" else 1e-6))
    scale = scale.bfloat16().float() if m.flaw == "scale in bf16" else scale
    return w * m.cast(x * scale, BF16)


@case("GELU bf16", standard(ROWS), BF16, BF16, lambda *a: _gelu(*a), flaws={"tanh form": "normal"})
def _(x):
    return F.gelu(x)


@case("GELU tanh f32", standard(ROWS), F32, F32, lambda *a: _gelu_tanh(*a), flaws={"erf form": "normal"})
def _(x):
    return F.gelu(x, approximate="tanh")


def _gelu(m: Machine, x: Tensor) -> Tensor:
    if m.flaw == "tanh form":
        return _gelu_tanh(replace(m, flaw=""), x)
    return 0.5 * x * (1 + m.keep(torch.erf(x * 0.7071067811865476)))


def _gelu_tanh(m: Machine, x: Tensor) -> Tensor:
    if m.flaw == "erf form":
        return _gelu(replace(m, flaw=""), x)
    return 0.5 * x * (1 + m.keep(torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))))


@case("SwiGLU bf16", standard(ROWS, ROWS), [BF16] * 2, BF16,
      lambda m, a, b: m.cast(a * m.keep(1 / (1 + torch.exp(-a))), BF16) * b, flaws={})
def _(a, b):
    return F.silu(a) * b


@case("linear, bias, ReLU bf16", standard((8, 192), (8, 192), (8,)), [BF16] * 3, BF16,
      lambda m, x, w, b: torch.relu(m.cast(m.matmul(x, w.T) + b, BF16)))
def _(x, w, b):
    return torch.relu(F.linear(x, w, b))


@case("conv2d f32", standard((1, 6, 9, 9), (4, 6, 3, 3)), [F32] * 2, F32, lambda *a: _conv(*a))
def _(x, w):
    return F.conv2d(x, w, padding=1)


@case("conv2d bf16", standard((1, 6, 9, 9), (4, 6, 3, 3)), [BF16] * 2, BF16, lambda *a: _conv(*a))
def _(x, w):
    return F.conv2d(x, w, padding=1)


def _conv(m: Machine, x: Tensor, w: Tensor) -> Tensor:
    columns = F.unfold(x, 3, padding=1)
    return m.matmul(w.reshape(4, -1), columns[0]).reshape(1, 4, 9, 9)


def _labels(g: torch.Generator, kind: str) -> List[Tensor]:
    return [values(g, ROWS, kind), torch.randint(0, ROWS[1], (ROWS[0],), generator=g)]


@case("cross-entropy of bf16 logits", _labels, [BF16, torch.int64], F32, lambda *a: _cross_entropy(*a))
def _(x, t):
    return F.cross_entropy(x.float(), t, reduction="none")


def _cross_entropy(m: Machine, x: Tensor, t: Tensor) -> Tensor:
    top = x.amax(-1)
    return top + torch.log(m.sum(m.keep(torch.exp(x - top[:, None])))) - x.gather(1, t[:, None])[:, 0]


@case("cross-entropy backward bf16", _labels, [BF16, torch.int64], BF16,
      lambda m, x, t: (m.softmax(x) - F.one_hot(t, ROWS[1])) / (1 if m.flaw else ROWS[0]), variants=3,
      flaws={"not divided by the rows": "normal"})
def _(x, t):
    x = x.detach().float().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(x, t), x)[0].to(torch.bfloat16)


@case("cumsum f32", standard((4, 150)), F32, F32, lambda *a: _cumsum(*a))
def _(x):
    return x.cumsum(-1)


def _cumsum(m: Machine, x: Tensor) -> Tensor:
    if m.order == "blocks" and m.accumulator == F32:
        parts = [torch.from_numpy(np.cumsum(p.numpy(), -1, dtype=np.float32)) for p in x.split(32, -1)]
        carry, made = torch.zeros_like(x[..., :1]), []
        for p in parts:
            made.append(carry + p)
            carry = carry + p[..., -1:]
        return torch.cat(made, -1)
    return torch.stack([m.sum(x[..., : k + 1]) for k in range(x.shape[-1])], -1)


def _zipf(g: torch.Generator, kind: str) -> List[Tensor]:
    weights = 1 / torch.arange(1, 13, dtype=torch.float64)
    tokens = torch.multinomial(weights, 300, True, generator=g)
    return [values(g, (300, 8), kind), tokens]


@case("embedding backward bf16, Zipf tokens", _zipf, [BF16, torch.int64], BF16, lambda *a: _scattered(*a))
def _(gradient, tokens):
    w = torch.zeros(12, 8, dtype=gradient.dtype, requires_grad=True)
    return torch.autograd.grad(F.embedding(tokens, w), w, gradient)[0]


def _scattered(m: Machine, g: Tensor, t: Tensor) -> Tensor:
    rows = [m.sum(g[t == k], 0) if bool((t == k).any()) else torch.zeros(8) for k in range(12)]
    return torch.stack(rows)


@case("batch norm, training f32", standard((40, 6), (6,), (6,)), [F32] * 3, F32, lambda *a: _batch_norm(*a),
      variants=3, flaws={"one-pass variance": "large mean"})
def _(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True, eps=1e-5)


def _batch_norm(m: Machine, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    variance, mean = m.variance(x.T.contiguous())
    scale = torch.rsqrt(m.keep(variance) + 1e-5) * w[:, None]
    return (x.T * scale + (b[:, None] - mean * scale)).T.contiguous() if m.variant == 2 else \
        ((x.T - mean) * scale + b[:, None]).T.contiguous()


@case("group norm bf16", standard((3, 8, 5, 5), (8,), (8,)), [BF16] * 3, BF16, lambda *a: _group_norm(*a),
      variants=3, flaws={"one-pass variance": "large mean", "one group": "normal"})
def _(x, w, b):
    return F.group_norm(x, 2, w, b)


def _group_norm(m: Machine, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    variance, mean = m.variance(x.reshape(3, 1 if m.flaw == "one group" else 2, -1))
    groups = variance.shape[1]
    spread = lambda t: t.expand(3, groups, 8 // groups).reshape(3, 8, 1, 1)
    scale = torch.rsqrt(m.keep(variance) + 1e-5)
    return (x - spread(mean)) * spread(scale) * w.reshape(8, 1, 1) + b.reshape(8, 1, 1)


@case("top-k of scores f32", standard((6, 32), (32, 40)), [F32] * 2, F32,
      lambda m, x, w: torch.topk(m.matmul(x, w), 5).values)
def _(x, w):
    return torch.topk(x @ w, 5).values


@case("RoPE bf16", standard((4, 30, 16)), BF16, BF16, lambda *a: _rope(*a),
      flaws={"half-split as pairs": "normal"})
def _(x):
    angles = torch.outer(torch.arange(30).float(), 1.0 / 10000 ** (torch.arange(0, 16, 2).float() / 16))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    turned = torch.cat([-x[..., 8:], x[..., :8]], -1)
    return (x.float() * cos + turned.float() * sin).to(x.dtype)


def _rope(m: Machine, x: Tensor) -> Tensor:
    angles = torch.outer(torch.arange(30).float(), 1.0 / 10000 ** (torch.arange(0, 16, 2).float() / 16))
    cos, sin = m.keep(angles.cos()), m.keep(angles.sin())
    if m.flaw:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    a, b = x[..., :8], x[..., 8:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


@case("quantise to e4m3 by rows", standard(ROWS), BF16, [E4M3, F32], lambda *a: _quantise(*a),
      flaws={"scale in bf16": "normal", "divides by 240": "normal"})
def _(x):
    scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448.0
    return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def _quantise(m: Machine, x: Tensor) -> List[Tensor]:
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / (240.0 if m.flaw == "divides by 240" else 448.0)
    scale = scale.bfloat16().float() if m.flaw == "scale in bf16" else scale
    quotient = x / scale if m.variant == 0 else x * (1 / scale)
    return [quotient.clamp(-448, 448), scale]


CASES[-1].variants = 2


@case("quantise to int8 by rows", standard(ROWS), F32, torch.int8, lambda *a: _int8(*a), variants=2,
      flaws={"truncates": "normal"})
def _(x):
    scale = x.abs().amax(-1, keepdim=True) / 127.0
    return torch.round(x / scale).clamp(-128, 127).to(torch.int8)


def _int8(m: Machine, x: Tensor) -> Tensor:
    scale = m.keep(x.abs().amax(-1, keepdim=True) / 127.0)
    quotient = x / scale if m.variant == 0 else x * (1 / scale)
    return (quotient.trunc() if m.flaw == "truncates" else quotient.round()).clamp(-128, 127)


@case("normalise (L2) f32", standard(ROWS), F32, F32,
      lambda m, x: x / torch.sqrt(m.sum(m.keep(x * x), -1, True)).clamp(min=1e-12))
def _(x):
    return F.normalize(x, dim=-1)


@case("variance f32", standard(ROWS), F32, F32,
      lambda m, x: m.variance(x)[0][..., 0] * (ROWS[1] / (ROWS[1] - (0 if m.flaw == "divides by n" else 1))),
      variants=3,
      flaws={"one-pass variance": "large mean", "divides by n": "normal"})
def _(x):
    return x.var(-1)


@case("average pooling f32", standard((2, 4, 12, 12)), F32, F32, lambda *a: _pool(*a))
def _(x):
    return F.avg_pool2d(x, 3, 3)


def _pool(m: Machine, x: Tensor) -> Tensor:
    windows = F.unfold(x.reshape(8, 1, 12, 12), 3, stride=3)
    return (m.sum(windows, 1) / 9).reshape(2, 4, 4, 4)


@case("max pooling of a sum bf16", standard((1, 4, 12, 12), (1, 4, 12, 12)), [BF16] * 2, BF16,
      lambda m, x, y: F.max_pool2d(m.cast(x + y, BF16), 2))
def _(x, y):
    return F.max_pool2d(x + y, 2)


@case("layer norm backward f32", standard(ROWS, ROWS, ROWS[1:]), [F32] * 3, [F32, F32],
      lambda *a: _layer_norm_backward(*a), variants=2, flaws={"mean term missing": "normal"})
def _(x, g, w):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, ROWS[1:], w, None, 1e-5), (x, w), g)


def _layer_norm_backward(m: Machine, x: Tensor, g: Tensor, w: Tensor) -> List[Tensor]:
    variance, mean = m.variance(x)
    scale = torch.rsqrt(m.keep(variance) + 1e-5)
    y, h = m.keep((x - mean) * scale), g * w
    first = 0.0 if m.flaw else m.mean(h, -1, True)
    return [(h - first - y * m.mean(h * y, -1, True)) * scale, m.sum(g * y, 0)]


@case("softmax backward bf16", standard(ROWS, ROWS), [BF16] * 2, BF16, lambda *a: _softmax_backward(*a),
      variants=2, flaws={"sum missing": "normal"})
def _(x, g):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(x.softmax(-1), x, g)[0]


def _softmax_backward(m: Machine, x: Tensor, g: Tensor) -> Tensor:
    y = m.cast(m.softmax(x), BF16)
    return y * (g - (0.0 if m.flaw else m.sum(m.keep(g * y), -1, True)))


@case("attention backward bf16", standard((2, 12, 16), (2, 20, 16), (2, 20, 16), (2, 12, 16)), [BF16] * 4,
      [BF16] * 3,
      lambda m, *x: _attention_backward(m, *x), variants=2, flaws={"row sums missing": "normal"})
def _(q, k, v, g):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    return torch.autograd.grad(out, (q, k, v), g)


def _attention_backward(m: Machine, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> List[Tensor]:
    p = m.softmax(m.matmul(q, k.transpose(-2, -1)) * 0.25)
    narrow = m.cast(p, BF16)
    out = m.cast(m.matmul(narrow, v), BF16)
    of_p = m.matmul(g, v.transpose(-2, -1))
    rows = m.sum(g * out if m.variant == 0 else p * of_p, -1, True)
    rows = 0.0 if m.flaw else rows
    s = m.cast(m.keep(p * (of_p - rows)), BF16)
    return [m.matmul(s, k) * 0.25, m.matmul(s.transpose(-2, -1), q) * 0.25,
            m.matmul(narrow.transpose(-2, -1), g)]


@case("linear backward bf16", standard((64, 24), (64, 10)), [BF16] * 2, [BF16, BF16],
      lambda m, x, g: [m.matmul(g.T.contiguous(), x), m.sum(g, 0)])
def _(x, g):
    w = torch.zeros(10, 24, dtype=x.dtype, requires_grad=True)
    b = torch.zeros(10, dtype=x.dtype, requires_grad=True)
    return torch.autograd.grad(F.linear(x, w, b), (w, b), g)


@case("RMS norm backward bf16", standard(ROWS, ROWS), [BF16] * 2, BF16, lambda *a: _rms_backward(*a),
      flaws={"second term missing": "normal"})
def _(x, g):
    given = x.detach().float().requires_grad_()
    y = given * torch.rsqrt(given.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch.autograd.grad(y, given, g.float())[0].to(x.dtype)


def _rms_backward(m: Machine, x: Tensor, g: Tensor) -> Tensor:
    scale = torch.rsqrt(m.mean(m.keep(x * x), -1, True) + 1e-6)
    second = 0.0 if m.flaw else x * (m.mean(g * x, -1, True) * scale * scale * scale)
    return g * scale - second


@case("mean square error f32", standard(ROWS, ROWS), [F32] * 2, F32,
      lambda m, x, y: m.mean((x - y).pow(2).flatten(), 0))
def _(x, y):
    return F.mse_loss(x, y)


@case("Adam step f32", standard(ROWS, ROWS), [F32] * 2, F32, lambda *a: _adam(*a),
      flaws={"eps inside the root": "small", "no bias correction": "normal"})
def _(p, g):
    first, second = 0.1 * g, 0.001 * g * g
    return p - 1e-2 * (first / (1 - 0.9)) / ((second / (1 - 0.999)).sqrt() + 1e-8)


def _adam(m: Machine, p: Tensor, g: Tensor) -> Tensor:
    first, second = 0.1 * g, 0.001 * g * g
    if m.flaw != "no bias correction":
        first, second = first / (1 - 0.9), second / (1 - 0.999)
    root = torch.sqrt(second + 1e-8) if m.flaw == "eps inside the root" else torch.sqrt(second) + 1e-8
    return p - 1e-2 * m.keep(first / root)


# ---- running ----


@dataclass
class Verdict:
    outside: float  # elements beyond the bound
    energy: float  # mean square of error / sigma


def expected(made: Case, inputs: List[Tensor]) -> List[Tuple[Tensor, Tensor, Tensor]]:
    run = BudgetEvaluation(made.precision)
    given = [run.input(x, d) for x, d in zip(inputs, made.dtypes)]
    with run:
        out = made.reference(*given)
    results = list(out) if isinstance(out, (tuple, list)) else [out]
    return [run.result(t, d) for t, d in zip(results, made.outputs)]


def judged(stored: Tensor, wanted: Tuple[Tensor, Tensor, Tensor], dtype: torch.dtype) -> Verdict:
    """As the judge does: the interval of stored results that the bound admits, and the size of the errors."""
    v, b, s = wanted
    if not dtype.is_floating_point:
        return Verdict(float(((stored - v).abs() > b).sum()), 0.0)
    low, high = round_to(v - b, dtype), round_to(v + b, dtype)
    ok = ((stored >= low) & (stored <= high)) | torch.isinf(b) | (torch.isnan(v) & torch.isnan(stored))
    unit = half_ulp(v, dtype) if dtype != E4M3 else v.abs() / 16
    sigma = (s ** 2 + unit ** 2 / 3).sqrt()
    z = ((stored - v) / sigma)[torch.isfinite(v) & torch.isfinite(sigma) & (sigma > 0)]
    return Verdict(float((~ok).sum()), float((z ** 2).mean()) if z.numel() else 0.0)


def outcome(made: Case, machine: Machine, inputs: List[Tensor], wanted) -> Verdict:
    results = made.kernel(machine, *[x.float() if x.is_floating_point() else x for x in inputs])
    results = results if isinstance(results, list) else [results]
    verdicts = [judged(machine.store(r, d) if d.is_floating_point else r.double(), w, d)
                for r, d, w in zip(results, made.outputs, wanted)]
    return Verdict(sum(v.outside for v in verdicts), max(v.energy for v in verdicts))


def rounded_inputs(made: Case, seed: int, kind: str) -> List[Tensor]:
    g = torch.Generator().manual_seed(seed)
    given = made.inputs(g, kind)
    return [round_to(x, d) if d.is_floating_point else x for x, d in zip(given, made.dtypes)]


def right_machines(made: Case) -> List[Machine]:
    orders = ORDERS + (("tensor core",) if made.precision.tensor_cores else ())
    return [Machine(order=o, rounds=r, variant=k)
            for k in range(made.variants) for o in orders for r in (True, False)]


def wrong_machines(made: Case) -> List[Tuple[str, Machine, Optional[str]]]:
    machines = (Machine(accumulator=BF16), Machine(drops=1), Machine(middle=F16), Machine(truncates=True))
    common = [(name, machine, None) for name, machine in zip(COMMON, machines)]
    return common + [(name, Machine(flaw=name), kind) for name, kind in made.flaws.items()]


def differs(made: Case, machine: Machine, inputs: List[Tensor]) -> bool:
    """Whether a defect changes anything at these inputs."""
    given = [x.float() if x.is_floating_point() else x for x in inputs]
    stored = []
    for one in (machine, Machine()):
        results = made.kernel(one, *given)
        results = results if isinstance(results, list) else [results]
        stored.append([one.store(r, d) if d.is_floating_point else r for r, d in zip(results, made.outputs)])
    return any(not torch.equal(a, b) for a, b in zip(*stored))


def run_case(made: Case, seeds: int, kinds=KINDS) -> Dict[str, Any]:
    trials = called_wrong = 0
    worst = 0.0
    defects: Dict[str, List[int]] = {}
    for kind in kinds:
        for seed in range(seeds):
            inputs = rounded_inputs(made, seed, kind)
            wanted = expected(made, inputs)
            for machine in right_machines(made):
                verdict = outcome(made, machine, inputs, wanted)
                trials += 1
                called_wrong += verdict.outside > 0
                worst = max(worst, verdict.energy)
            for name, machine, only in wrong_machines(made):
                if (only is not None and kind != only) or not differs(made, machine, inputs):
                    continue
                verdict = outcome(made, machine, inputs, wanted)
                found = defects.setdefault(name, [0, 0, 0])
                found[0] += 1
                found[1] += verdict.outside > 0
                found[2] += verdict.outside > 0 or verdict.energy > ENERGY
    return {"trials": trials, "called_wrong": called_wrong, "energy": worst, "defects": defects}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    total = called_wrong = 0
    print("| operator | right kernels | outside | z² | " + " | ".join(COMMON) + " | other defects |")
    print("| --- " * (5 + len(COMMON)) + "|")
    started = time.time()
    for made in CASES:
        if options.only not in made.name:
            continue
        torch.manual_seed(1)
        r = run_case(made, options.seeds)
        total, called_wrong = total + r["trials"], called_wrong + r["called_wrong"]
        found = {name: f"{b}/{n}" + (f" ({e})" if e != b else "") for name, (n, b, e) in r["defects"].items()}
        others = "; ".join(f"{name} {text}" for name, text in found.items() if name not in COMMON)
        cells = [made.name, r["trials"], r["called_wrong"], f"{r['energy']:.2g}",
                 *(found.get(n, "") for n in COMMON), others]
        print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)
    print(f"\n{total} trials of correct kernels, {called_wrong} called wrong, {time.time() - started:.0f} s")
    return 1 if called_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
