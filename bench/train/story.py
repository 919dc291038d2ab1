"""The kernels of examples/embedding_gradient in a transformer of plain PyTorch, on a GPU, at full size.

The model and its data are those of `assay train` (src/train/model.h), written again in PyTorch: embedding,
RMSNorm, two layers of rotary causal attention and SwiGLU, an untied head; bf16 activations, fp32 weights.
The backward pass of the embedding and its norm is

    trusted   index_add_ in fp32, rounded to bf16 once
    again     the same run once more: what differs from `trusted` is noise, because atomics add in any order
    right     right.cu
    wrong     wrong.cu

    python3 bench/train/story.py --json story.json        # needs a GPU, nvcc and torch
    python3 bench/train/story.py --sweep                  # what gap and noise depend on: other first weights, precisions, data

`--sweep` trains in the cell Zipf + SGD with each row of SETTINGS, and then in all cells with the one whose gap stands out
most.
"""

import argparse
import ctypes
import itertools
import json
import math
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/embedding_gradient"
EPS = 1e-6
# What a plain PyTorch model may have otherwise: precision of activations, spread of the first weights (None: as nn.Linear and nn.Embedding
# have them), a tied head, tokens that do not depend on the one before, attention whose backward pass adds in one order.
SETTINGS = {
    "as assay train": {},
    "fp32 activations": {"activations": "fp32"},
    "fp32, all weights 0.02": {"activations": "fp32", "linear_spread": 0.02},
    "fp32, first weights of PyTorch": {"activations": "fp32", "embedding_spread": 1.0, "linear_spread": None},
    "fp32, embedding 0.02, else of PyTorch": {"activations": "fp32", "linear_spread": None},
    "bf16, all weights 0.02": {"linear_spread": 0.02},
    "fp32, embedding 0.1": {"activations": "fp32", "embedding_spread": 0.1},
    "fp32, independent tokens": {"activations": "fp32", "follows": 0.0},
    "fp32, attention in one order": {"activations": "fp32", "attention": "math"},
    "fp32, tied head": {"activations": "fp32", "tied": True},
    "bf16, first weights of PyTorch": {"embedding_spread": 1.0, "linear_spread": None},
    "fp32, tokens always follow": {"activations": "fp32", "follows": 1.0},
}
ZIPF_EXPONENT = 1.1
FAVOURITES = 4
RATES = {("zipf", "sgd"): 0.1, ("zipf", "momentum"): 0.1, ("zipf", "adamw"): 1e-3,
         ("uniform", "sgd"): 1.0, ("uniform", "momentum"): 0.1, ("uniform", "adamw"): 1e-3}


def built(name, folder):
    """The host function of a kernel, as a Python function over tensors."""
    library = Path(folder) / (name + ".so")
    subprocess.run(["nvcc", "-shared", "-Xcompiler", "-fPIC", "-O3", "-arch=native", "-o", library,
                    EXAMPLE / (name + ".cu")], check=True)
    entry = ctypes.CDLL(str(library)).embedding_rmsnorm_grad
    entry.argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_int] * 3 + [ctypes.c_float, ctypes.c_void_p]

    def call(dy, tokens, w, g):
        (rows, width), vocabulary = dy.shape, w.shape[0]
        dw = torch.empty_like(w)
        dg = torch.empty(width, dtype=torch.float32, device=w.device)
        workspace = torch.empty(vocabulary * width, dtype=torch.float32, device=w.device)
        pointers = [tensor.data_ptr() for tensor in (dy, tokens, w, g, dw, dg, workspace)]
        entry(*pointers, rows, width, vocabulary, EPS, torch.cuda.current_stream().cuda_stream)
        return dw, dg

    return call


def trusted(dy, tokens, w, g):
    x, up, gain = w[tokens].float(), dy.float(), g.float()
    scale = torch.rsqrt(x.square().mean(1, keepdim=True) + EPS)
    along = (up * gain * x).mean(1, keepdim=True) * scale**3
    dw = torch.zeros(w.shape, dtype=torch.float32, device=w.device)
    dw.index_add_(0, tokens, up * gain * scale - x * along)
    return dw.to(torch.bfloat16), (up * x * scale).sum(0)


class EmbeddingNorm(torch.autograd.Function):
    """norm(w[tokens]) · g, with the backward pass under test."""

    @staticmethod
    def forward(ctx, w, g, tokens, backward):
        ctx.save_for_backward(w, g, tokens)
        ctx.backward_of = backward
        x = w[tokens].float()
        return (x * torch.rsqrt(x.square().mean(1, keepdim=True) + EPS) * g.float()).to(w.dtype)

    @staticmethod
    def backward(ctx, dy):
        w, g, tokens = ctx.saved_tensors
        wanted = [tensor.to(torch.bfloat16).contiguous() for tensor in (dy, w, g)]
        dw, dg = ctx.backward_of(wanted[0], tokens, *wanted[1:])
        return dw.to(w.dtype), dg.to(g.dtype), None, None


def norm(x, g):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * g.float()).to(x.dtype)


class Model:
    def __init__(self, sizes, seed, device):
        self.sizes = sizes
        self.type = torch.float32 if sizes.activations == "fp32" else torch.bfloat16
        width, inner, layers = sizes.width, sizes.feed_forward, sizes.layers
        through, added = width**-0.5, (2 * layers) ** -0.5
        shapes = {"embedding": ((sizes.vocabulary, width), 0.02), "embedding norm": ((width,), 0)}
        for layer in range(layers):
            shapes.update({
                f"{layer} attention norm": ((width,), 0), f"{layer} query": ((width, width), through),
                f"{layer} key": ((width, width), through), f"{layer} value": ((width, width), through),
                f"{layer} output": ((width, width), through * added), f"{layer} inner norm": ((width,), 0),
                f"{layer} up": ((width, inner), through), f"{layer} gate": ((width, inner), through),
                f"{layer} down": ((inner, width), inner**-0.5 * added)})
        shapes.update({"final norm": ((width,), 0), "head": ((width, sizes.vocabulary), 0.02)})
        if sizes.tied:
            del shapes["head"]
        for name, (shape, spread) in shapes.items():
            if name == "embedding":
                shapes[name] = (shape, sizes.embedding_spread)
            elif spread and sizes.linear_spread != "depth":
                shapes[name] = (shape, sizes.linear_spread or (3 * shape[0]) ** -0.5)
        generator = torch.Generator().manual_seed(seed)
        self.weights = {}
        for name, (shape, spread) in shapes.items():
            first = torch.randn(shape, generator=generator) * spread if spread else torch.ones(shape)
            self.weights[name] = first.to(device).requires_grad_()
        half = width // sizes.heads // 2
        angles = torch.arange(sizes.sequence, dtype=torch.float64)[:, None] * 10000.0 ** (
            -torch.arange(half, dtype=torch.float64) / half)
        self.cosines, self.sines = (f(angles).float().to(device) for f in (torch.cos, torch.sin))

    def rotated(self, x):
        first, second = x.float().chunk(2, -1)
        turned = (first * self.cosines - second * self.sines, first * self.sines + second * self.cosines)
        return torch.cat(turned, -1).to(self.type)

    def attention(self, q, k, v):
        if self.sizes.attention == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.softmax(scores.float().masked_fill(future, -math.inf), -1).to(v.dtype) @ v

    def loss(self, tokens, targets, backward):
        sizes = self.sizes
        w = {name: weight.to(self.type) for name, weight in self.weights.items()}
        stream = EmbeddingNorm.apply(w["embedding"], w["embedding norm"], tokens, backward)
        split = (-1, sizes.sequence, sizes.heads, sizes.width // sizes.heads)
        for layer in range(sizes.layers):
            x = norm(stream, w[f"{layer} attention norm"])
            q, k, v = ((x @ w[f"{layer} {part}"]).view(split).transpose(1, 2)
                       for part in ("query", "key", "value"))
            mixed = self.attention(self.rotated(q), self.rotated(k), v)
            stream = stream + mixed.transpose(1, 2).reshape(stream.shape) @ w[f"{layer} output"]
            x = norm(stream, w[f"{layer} inner norm"])
            inner = F.silu((x @ w[f"{layer} gate"]).float()) * (x @ w[f"{layer} up"]).float()
            stream = stream + inner.to(self.type) @ w[f"{layer} down"]
        logits = norm(stream, w["final norm"]) @ (w["embedding"].T if sizes.tied else w["head"])
        return F.cross_entropy(logits.float(), targets)


def batches(source, sizes, steps, seed, device):
    """Tokens and what follows them: frequencies ~ 1 / rank^1.1 or equal; half follow a favourite."""
    generator = torch.Generator(device).manual_seed(seed)
    ranks = torch.arange(1, sizes.vocabulary + 1, device=device, dtype=torch.float64)
    weights = ranks**-ZIPF_EXPONENT if source == "zipf" else torch.ones_like(ranks)
    cumulative = (weights.cumsum(0) / weights.sum()).float()

    def draw(*shape):
        at = torch.rand(shape, generator=generator, device=device)
        return torch.searchsorted(cumulative, at).clamp_(max=sizes.vocabulary - 1)

    favourites = draw(sizes.vocabulary, FAVOURITES)
    rows = steps * sizes.sequences
    text = [draw(rows)]
    for _ in range(sizes.sequence):
        follows = torch.rand(rows, generator=generator, device=device) < sizes.follows
        which = torch.randint(FAVOURITES, (rows,), generator=generator, device=device)
        text.append(torch.where(follows, favourites[text[-1], which], draw(rows)))
    text = torch.stack(text, 1).view(steps, sizes.sequences, sizes.sequence + 1)
    return [(step[:, :-1].reshape(-1), step[:, 1:].reshape(-1)) for step in text]


def optimizer_of(name, weights, rate):
    if name == "adamw":
        return torch.optim.AdamW(weights, lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    return torch.optim.SGD(weights, lr=rate, momentum=0.9 if name == "momentum" else 0)


def losses_of(sizes, data, optimizer, rate, backward, seed, device):
    model = Model(sizes, seed, device)
    stepper = optimizer_of(optimizer, list(model.weights.values()), rate)
    losses = []
    for tokens, targets in data:
        stepper.zero_grad(set_to_none=True)
        loss = model.loss(tokens, targets, backward)
        loss.backward()
        stepper.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def largest(a, b):
    gaps = [abs(x - y) for x, y in zip(a, b)]
    step = max(range(len(gaps)), key=lambda i: gaps[i] if math.isfinite(gaps[i]) else math.inf)
    return gaps[step], step


def trained(sizes, source, optimizer, kernels, data):
    """The losses of one cell with each kernel, and how far they are from the trusted ones."""
    rate = RATES[source, optimizer]
    losses = {name: losses_of(sizes, data, optimizer, rate, call, sizes.seed, "cuda")
              for name, call in kernels.items()}
    gaps = {name: largest(losses[name], losses["trusted"]) for name in kernels if name != "trusted"}
    return {"tokens": source, "optimizer": optimizer, "rate": rate, "loss": losses,
            "gap": {name: {"size": gap, "step": at} for name, (gap, at) in gaps.items()}}


def ratio(cell):
    return cell["gap"]["wrong"]["size"] / max(cell["gap"]["again"]["size"], 1e-9)


def with_setting(sizes, setting):
    return argparse.Namespace(**{**vars(sizes), **setting})


def sweep(sizes, kernels, begun):
    """The cell Zipf + SGD in each setting. Returns them, and the setting whose gap stands out most."""
    few = {name: kernels[name] for name in ("trusted", "again", "wrong")}
    rows = []
    print("| setting (Zipf + SGD) | wrong: largest gap (step) | noise, all steps | noise up to that step | gap / noise | "
          "first and last loss |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name, setting in SETTINGS.items():
        if time.time() - begun > sizes.seconds * 0.6:
            break
        own = with_setting(sizes, setting)
        cell = trained(own, "zipf", "sgd", few, batches("zipf", own, own.steps, own.seed, "cuda"))
        gap, noise = cell["gap"]["wrong"], cell["gap"]["again"]
        until = largest(cell["loss"]["again"][:gap["step"] + 1], cell["loss"]["trusted"][:gap["step"] + 1])[0]
        rows.append({"name": name, "setting": setting, "cell": cell})
        print("| {} | {:.3g} ({}) | {:.2g} | {:.2g} | {:.0f} | {:.2f}, {:.2f} |".format(
            name, gap["size"], gap["step"], noise["size"], until, ratio(cell), cell["loss"]["trusted"][0],
            cell["loss"]["trusted"][-1]), flush=True)
    return rows, max(rows, key=lambda row: ratio(row["cell"]))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"vocabulary": 8192, "width": 128, "heads": 4, "layers": 2, "feed_forward": 256,
                          "sequence": 256, "sequences": 128, "steps": 250, "seed": 1}.items():
        arguments.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    arguments.add_argument("--sweep", action="store_true")
    arguments.add_argument("--setting", choices=list(SETTINGS), default="as assay train")
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--seconds", type=float, default=240, help="after which no further cell begins")
    sizes = arguments.parse_args()
    usual = {"activations": "bf16", "embedding_spread": 0.02, "linear_spread": "depth", "tied": False,
             "attention": "sdpa", "follows": 0.5}
    sizes = with_setting(sizes, {**usual, **SETTINGS[sizes.setting]})
    begun, cells, rows = time.time(), [], []
    with tempfile.TemporaryDirectory() as folder:
        kernels = {"trusted": trusted, "again": trusted, "right": built("right", folder),
                   "wrong": built("wrong", folder)}
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {vars(sizes)}", flush=True)
        if sizes.sweep:
            rows, best = sweep(sizes, kernels, begun)
            print(f"\nall cells, {best['name']}:\n", flush=True)
            sizes = with_setting(sizes, best["setting"])
        print("| tokens | optimizer | rate | wrong: largest gap (step) | right: largest gap (step) | noise | gap / noise |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for optimizers in (("sgd", "adamw"), ("momentum",)):  # what is most telling first
            for source, optimizer in itertools.product(("zipf", "uniform"), optimizers):
                if time.time() - begun > sizes.seconds:
                    continue
                cell = trained(sizes, source, optimizer, kernels,
                               batches(source, sizes, sizes.steps, sizes.seed, "cuda"))
                cells.append(cell)
                gap = cell["gap"]
                print("| {} | {} | {} | {:.2g} ({}) | {:.2g} ({}) | {:.2g} | {:.1f} |".format(
                    source, optimizer, cell["rate"], *gap["wrong"].values(), *gap["right"].values(),
                    gap["again"]["size"], ratio(cell)), flush=True)
                if sizes.json:
                    model = {name: value for name, value in vars(sizes).items()
                             if isinstance(value, (int, str, float))}
                    sizes.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "model": model,
                                                      "seconds": time.time() - begun, "cells": cells,
                                                      "sweep": rows}))
    print(f"{time.time() - begun:.0f} s")


if __name__ == "__main__":
    main()
