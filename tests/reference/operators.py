"""Every operator of operators.cpp, computed independently in extended precision.

Called with a folder that holds one folder per operator: job.json and the inputs as
.npy files. Writes NAME.out.npy beside them.
"""
import json
import math
import os
import sys

import numpy as np

L = np.longdouble


def erf(x):
    return np.vectorize(lambda v: L(math.erf(float(v))), otypes=[L])(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def lse(x):
    m = x.max(-1, keepdims=True)
    return (m + np.log(np.exp(x - m).sum(-1, keepdims=True)))[..., 0]


def layernorm_parts(x, eps):
    mu = x.mean(-1, keepdims=True)
    r = 1 / np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + eps)
    return (x - mu) * r, r


def layernorm_dx(x, w, g, eps, **_):
    h, r = layernorm_parts(x, eps)
    gw = g * w
    return r * (gw - gw.mean(-1, keepdims=True) - h * (gw * h).mean(-1, keepdims=True))


def attention(q, k, v, D, S, **_):
    s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(L(D))
    s = np.where(np.tril(np.ones((S, S), bool)), s, -np.inf)
    return np.einsum("hij,hjd->hid", softmax(s), v)


def attention_mask_gqa(q, k, v, keep, H, G, D, S, **_):
    k, v = np.repeat(k, G, 0), np.repeat(v, G, 0)
    s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(L(D))
    s = np.where(keep.astype(bool) | np.eye(S, dtype=bool), s, -np.inf)
    return np.einsum("hij,hjd->hid", softmax(s), v)


def cross_entropy_grad(x, t, g, **_):
    return g[:, None] * (softmax(x) - np.eye(x.shape[1], dtype=L)[t])


def embedding_grad(g, t, V, D, **_):
    y = np.zeros((V, D), L)
    np.add.at(y, t, g)
    return y


def rope(x, theta, T, D, **_):
    angle = np.arange(T, dtype=L)[:, None] * L(theta) ** (-2 * np.arange(D // 2, dtype=L) / D)
    c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    y = np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    y[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return y


def segment_sum(x, o, B, **_):
    return np.stack([x[o[b]:o[b + 1]].sum(0) for b in range(B)])


def conv1d(x, w, **_):
    p = np.pad(x, ((0, 0), (1, 1)))
    return sum(np.einsum("cl,oc->ol", p[:, r:r + x.shape[1]], w[:, :, r]) for r in range(3))


def depthwise_conv2d(x, w, H, W, **_):
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    return sum(p[:, a:a + H, b:b + W] * w[:, a, b, None, None] for a in range(3) for b in range(3))


def quantize_rows(x, **_):
    s = np.maximum(np.abs(x).max(-1), L("1e-12")) / 448
    return {"s": s, "q": np.clip(x / s[:, None], -448, 448)}


def adamw(p, m, v, g, lr, b1, b2, eps, wd, **_):
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g ** 2
    return {"m": m, "v": v, "p": p - lr * (m / (np.sqrt(v) + eps) + wd * p)}


def scatter_max(x, t, V, D, **_):
    y = np.full((V, D), -np.inf, L)
    np.maximum.at(y, t, x)
    return y


def kl_divergence(p, q, **_):
    return (p * (np.log(p) - np.log(q))).sum(-1)


def moe_combine(h, e, w, T, **_):
    return np.stack([(w[t][:, None] * h[e[t], t]).sum(0) for t in range(T)])


def permute_rows(x, T, **_):
    y = np.empty_like(x)
    y[(7 * np.arange(T) + 3) % T] = x
    return y


def gelu_tanh(x, **_):
    return x / 2 * (1 + np.tanh(L("0.7978845608028654") * (x + L("0.044715") * x ** 3)))


OPERATORS = {
    "add_bias": lambda x, b, **_: x + b,
    "silu": lambda x, **_: x * sigmoid(x),
    "gelu_erf": lambda x, **_: x / 2 * (1 + erf(x / np.sqrt(L(2)))),
    "gelu_tanh": gelu_tanh,
    "swiglu": lambda x, D, **_: x[:, :D] * sigmoid(x[:, :D]) * x[:, D:],
    "softmax": lambda x, **_: softmax(x),
    "softmax_unshifted": lambda x, **_: softmax(x),
    "log_softmax": lambda x, **_: x - lse(x)[:, None],
    "logsumexp": lambda x, **_: lse(x),
    "cross_entropy": lambda x, t, **_: lse(x) - x[np.arange(len(t)), t],
    "cross_entropy_grad": cross_entropy_grad,
    "layernorm": lambda x, w, b, eps, **_: layernorm_parts(x, eps)[0] * w + b,
    "rmsnorm": lambda x, w, eps, **_: x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps) * w,
    "layernorm_dx": layernorm_dx,
    "rmsnorm_dw": lambda x, g, eps, **_: (g * x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)).sum(0),
    "matmul": lambda a, b, **_: a @ b,
    "matmul_bias_relu": lambda a, b, c, **_: np.maximum(a @ b + c, 0),
    "batched_matmul_nt": lambda a, b, **_: np.einsum("bik,bjk->bij", a, b),
    "gemm_alpha_beta": lambda a, b, y, alpha, beta, **_: alpha * (a @ b) + beta * y,
    "attention": attention,
    "attention_mask_gqa": attention_mask_gqa,
    "embedding": lambda w, t, **_: w[t],
    "embedding_grad": embedding_grad,
    "rope": rope,
    "transpose": lambda x, **_: x.T,
    "cumsum": lambda x, **_: np.cumsum(x, -1),
    "argmax": lambda x, **_: np.argmax(x, -1),
    "segment_sum": segment_sum,
    "conv1d": conv1d,
    "depthwise_conv2d": depthwise_conv2d,
    "maxpool": lambda x, C, L, **_: x.reshape(C, L, 2).max(-1),
    "quantize_rows": quantize_rows,
    "dequantize": lambda q, s, **_: q * s[:, None],
    "int8_matmul": lambda a, b, s, **_: (a.astype(np.int64) @ b.astype(np.int64)) * s,
    "adamw": adamw,
    "scatter_max": scatter_max,
    "histogram": lambda t, V, **_: np.bincount(t, minlength=V),
    "l2_normalize": lambda x, eps, **_: x / np.sqrt(np.maximum((x ** 2).sum(-1, keepdims=True), eps)),
    "masked_mean": lambda x, keep, **_: (x * (keep != 0)).sum(-1) / np.maximum((keep != 0).sum(-1), 1),
    "concat": lambda a, b, **_: np.concatenate([a, b]),
    "kl_divergence": kl_divergence,
    "moe_combine": moe_combine,
    "cosine_similarity": lambda a, b, **_: (a * b).sum(-1) / np.sqrt((a ** 2).sum(-1)) / np.sqrt((b ** 2).sum(-1)),
    "frobenius": lambda x, **_: np.sqrt((x ** 2).sum()),
    "permute_rows": permute_rows,
    "softcap": lambda x, cap, **_: cap * np.tanh(x / cap),
    "sum_f64": lambda x, **_: x.sum(-1),
}


def main(root):
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        job = json.load(open(os.path.join(folder, "job.json")))
        given = dict(job["dims"])
        given.update({key: L(value) for key, value in job["scalars"].items()})
        for tensor in job["inputs"]:
            array = np.load(os.path.join(folder, tensor + ".npy"))
            given[tensor] = array.astype(L) if array.dtype.kind == "f" else array
        result = OPERATORS[name](**given)
        if not isinstance(result, dict):
            result = {job["outputs"][0]: result}
        for output in job["outputs"]:
            np.save(os.path.join(folder, output + ".out.npy"), np.ascontiguousarray(result[output]).astype(np.float64).reshape(np.shape(result[output])))


main(sys.argv[1])
