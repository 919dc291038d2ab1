"""A Triton softmax, checked against torch.softmax. `python softmax.py` prints both reports."""

import torch
import triton
import triton.language as tl

import assay


@triton.jit
def softmax_kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < cols
    value = tl.load(x + row * cols + column, mask=inside, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * cols + column, value / tl.sum(value, 0), mask=inside)


@triton.jit
def unmasked_softmax_kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + column)  # wrong: BLOCK is a power of 2, and cols need not be
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * cols + column, value / tl.sum(value, 0), mask=column < cols)


def softmax(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols))
    return y


def unmasked_softmax(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    unmasked_softmax_kernel[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols))
    return y


def check(function, budget=10.0):
    return assay.check(
        function,
        reference=lambda x: torch.softmax(x, -1),
        shapes={"x": ("rows", "cols")},
        dims={"rows": (1, 256), "cols": (1, 2048)},
        values={"x": "activations"},
        budget=budget,
    )


if __name__ == "__main__":
    for function in (unmasked_softmax, softmax):
        print(check(function))
