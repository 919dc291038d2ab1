"""Features of Triton, each against torch on the CPU: `triton_features.py [NAME…]` prints one line for each that is right."""

import sys

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def expect(result, expected, tolerance=1e-4):
    torch.testing.assert_close(result.cpu().double(), expected.double(), rtol=tolerance, atol=tolerance)


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TYPE: tl.constexpr,
               PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=TYPE)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


@feature
def dot():
    for dtype, out, precision, tolerance in (
        (torch.float16, tl.float32, None, 1e-3),
        (torch.bfloat16, tl.float32, None, 1e-3),
        (torch.float32, tl.float32, "tf32", 3e-2),
        (torch.float32, tl.float32, "ieee", 1e-4),
        (torch.float8_e4m3fn, tl.float32, None, 1e-2),
        (torch.float8_e5m2, tl.float32, None, 1e-2),
        (torch.int8, tl.int32, None, 0),
    ):
        scale = 4 if dtype == torch.int8 else 1
        a, b = (random(64, 64) * scale).to(dtype), (random(64, 64) * scale).to(dtype)
        c = torch.empty(64, 64, dtype=torch.int32 if dtype == torch.int8 else torch.float32, device="cuda")
        dot_kernel[(1,)](a.cuda(), b.cuda(), c, 64, 64, 64, out, precision)
        expect(c, a.double() @ b.double(), tolerance)


@triton.jit
def atomics_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(y_ptr + i % 3, x, mask=i < n)
    tl.atomic_max(y_ptr + 3, tl.max(x, 0))
    tl.atomic_min(y_ptr + 4, tl.min(tl.where(i < n, x, 1000), 0))


@feature
def atomics():
    x, y = torch.arange(7, 707, dtype=torch.int32), torch.zeros(5, dtype=torch.int32)
    y[4] = 1000
    y = y.cuda()
    atomics_kernel[(6,)](x.cuda(), y, 700, BLOCK=128)
    expect(y, torch.stack([x[0::3].sum(), x[1::3].sum(), x[2::3].sum(), x.max(), x.min()]))


@triton.jit
def lock_kernel(x_ptr, lock_ptr, y_ptr, BLOCK: tl.constexpr):
    total = tl.sum(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + total)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@feature
def lock():
    x, y = random(512), torch.zeros(1).cuda()
    lock_kernel[(4,)](x.cuda(), torch.zeros(1, dtype=torch.int32).cuda(), y, BLOCK=128)
    expect(y, x.sum().reshape(1))


@triton.jit
def scans_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, tl.cumsum(x, 0))
    tl.store(y_ptr + N + i, tl.sort(x))
    tl.store(y_ptr + 2 * N + i, tl.zeros((N,), tl.float32) + tl.argmax(x, 0))


@feature
def scans():
    x, y = random(256), torch.empty(3, 256, device="cuda")
    scans_kernel[(1,)](x.cuda(), y, 256)
    expect(y, torch.stack([x.cumsum(0), x.sort()[0], x.argmax().expand(256).float()]))


@triton.jit
def functions_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, tl.exp(x))
    tl.store(y_ptr + N + i, libdevice.tanh(x))
    tl.store(y_ptr + 2 * N + i, libdevice.lgamma(x + 2.0))
    tl.store(y_ptr + 3 * N + i, tl.rsqrt(x * x + 1.0))


@feature
def functions():
    x, y = random(128).clamp(-1.5, 3), torch.empty(4, 128, device="cuda")
    functions_kernel[(1,)](x.cuda(), y, 128)
    expect(y, torch.stack([x.exp(), x.tanh(), torch.lgamma(x + 2), torch.rsqrt(x * x + 1)]))


@triton.jit
def made_kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    y.store(at, x.load(at) * 3)


@triton.jit
def given_kernel(x, y, BM: tl.constexpr, BN: tl.constexpr):
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    y.store(at, x.load(at) * 3)


@feature
def descriptors():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x, y, z = random(40, 48), torch.empty(40, 48, device="cuda"), torch.empty(40, 48, device="cuda")
    made_kernel[(3, 2)](x.cuda(), y, 40, 48, 16, 32)
    expect(y, x * 3)
    given_kernel[(3, 2)](TensorDescriptor.from_tensor(x.cuda(), [16, 32]), TensorDescriptor.from_tensor(z, [16, 32]), 16, 32)
    expect(z, x * 3)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"], reset_to_zero=["y_ptr"])
@triton.jit
def reset_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"], restore_value=["x_ptr"])
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def restore_kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    if EVEN:
        mask = i >= 0
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=mask) * 2, mask=mask)


@feature
def autotune():
    x, y = random(300), torch.zeros(1).cuda()
    reset_kernel[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x.cuda(), y, 300)
    expect(y, x.sum().reshape(1))
    assert reset_kernel.best_config.kwargs == {"BLOCK": 64}, reset_kernel.best_config
    z = x.cuda()
    restore_kernel[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](z, 300)
    expect(z, x * 2)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def forgetful_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


@feature
def autotune_without_reset():
    x = random(300)
    for is_tuned in (False, True):
        y = torch.zeros(1).cuda()
        forgetful_kernel[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x.cuda(), y, 300)
        assert torch.allclose(y.cpu(), x.sum().reshape(1), atol=1e-4) == is_tuned, y


@feature
def benchmark():
    calls = []
    assert triton.testing.do_bench(lambda: calls.append(1)) == 1.0
    assert triton.testing.do_bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8]) == [1.0, 1.0, 1.0]
    assert len(calls) == 2, calls


@triton.jit
def meet_kernel(x_ptr, y_ptr, flag_ptr, PROGRAMS: tl.constexpr):
    p = tl.program_id(0)
    tl.store(x_ptr + p, p + 1)
    tl.debug_barrier()
    tl.atomic_add(flag_ptr, 1, sem="release")
    while tl.atomic_add(flag_ptr, 0, sem="acquire") < PROGRAMS:
        pass
    tl.debug_barrier()
    tl.store(y_ptr + p, tl.sum(tl.load(x_ptr + tl.arange(0, PROGRAMS))))


@feature
def cooperative():
    x, y = torch.zeros(8, dtype=torch.int32).cuda(), torch.empty(8, dtype=torch.int32, device="cuda")
    meet_kernel[(8,)](x, y, torch.zeros(1, dtype=torch.int32).cuda(), 8, launch_cooperative_grid=True)
    expect(y, torch.full((8,), 36))


@triton.jit
def pair_kernel(pair, y_ptr, N: tl.constexpr, FACTORS: tl.constexpr):
    i = tl.arange(0, N)
    a_ptr, b_ptr = pair
    y = tl.load(a_ptr + i) + tl.load(b_ptr + i)
    for at in tl.static_range(len(FACTORS)):
        y = y * FACTORS[at]
    tl.store(y_ptr + i, y)


@feature
def tuples():
    a, b, y = random(64), random(64) + 1, torch.empty(64, device="cuda")
    pair_kernel[(1,)]((a.cuda(), b.cuda()), y, 64, (2, 3))
    expect(y, (a + b) * 6)


@triton.jit
def print_kernel(x_ptr, N: tl.constexpr):
    tl.device_print("value", tl.load(x_ptr + tl.arange(0, N)))


@feature
def device_print():
    print_kernel[(1,)](torch.tensor([41, 42], dtype=torch.int32).cuda(), 2, num_warps=1)


@torch.library.triton_op("assay_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(twice_kernel)[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y


@triton.jit
def twice_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@feature
def triton_op():
    x = random(300)
    expect(twice(x.cuda()), x * 2)


@triton.jit
def assembly_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.inline_asm_elementwise(
        """
        {
          .reg .b32 t;
          shl.b32 t, $1, 3;
          add.s32 $0, t, 1;
        }
        """,
        "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(y_ptr + i, y)


@feature
def inline_assembly():
    x, y = torch.arange(64, dtype=torch.int32), torch.empty(64, dtype=torch.int32, device="cuda")
    assembly_kernel[(1,)](x.cuda(), y, 64)
    expect(y, x * 8 + 1)


if __name__ == "__main__":
    for name, function in FEATURES.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            function()
            torch.cuda.synchronize()
            print("right:", name, flush=True)
