"""Triton kernels that end with an error: `triton_faults.py assertion`, `triton_faults.py instruction`."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def assertion_kernel(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.device_assert(x < 5, "too large")  # assertion
    tl.store(x_ptr + i, x + 1)


@triton.jit
def instruction_kernel(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    text: tl.constexpr = "wgmma.fence.sync.aligned; mov.b32 $0, $1;"
    x = tl.load(x_ptr + i)
    x = tl.inline_asm_elementwise(text, "=r,r", [x], dtype=tl.int32, is_pure=False, pack=1)  # instruction
    tl.store(x_ptr + i, x)


if __name__ == "__main__":
    kernel = {"assertion": assertion_kernel, "instruction": instruction_kernel}[sys.argv[1]]
    kernel[(1,)](torch.arange(64, dtype=torch.int32).cuda(), 64)
    torch.cuda.synchronize()
