"""Triton kernels with a defect each, and without: `triton_kernels.py wrong [NAME…]` and `triton_kernels.py right [NAME…]`.

A line that ends with `# KIND` is where a finding of that kind is expected in the wrong variant. The right variant must
have no finding at all, and its results must be those of torch on the CPU.
"""

import sys

import torch
import triton
import triton.language as tl

N = 1000  # no multiple of a block
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def expect(result, expected, is_right, tolerance=1e-5):
    torch.cuda.synchronize()
    if is_right:
        torch.testing.assert_close(result.cpu(), expected, rtol=tolerance, atol=tolerance)


@triton.jit
def load_mask_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if RIGHT:
        x = tl.load(x_ptr + i, mask=i < n)
    else:
        x = tl.load(x_ptr + i)  # out-of-bounds
    tl.store(y_ptr + i, x * 2, mask=i < n)


@case
def load_without_mask(right):
    x, y = random(N), torch.empty(N, device="cuda")
    load_mask_kernel[(triton.cdiv(N, 256),)](x.cuda(), y, N, BLOCK=256, RIGHT=right)
    expect(y, x * 2, right)


@triton.jit
def store_mask_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if RIGHT:
        tl.store(y_ptr + i, x + 1, mask=i < n)
    else:
        tl.store(y_ptr + i, x + 1)  # out-of-bounds


@case
def store_without_mask(right):
    x, y = random(N), torch.empty(N, device="cuda")
    store_mask_kernel[(triton.cdiv(N, 256),)](x.cuda(), y, N, BLOCK=256, RIGHT=right)
    expect(y, x + 1, right)


@triton.jit
def tail_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n if RIGHT else i <= n
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x, mask=mask)  # out-of-bounds


@case
def tail_one_too_long(right):
    x, y = random(N), torch.empty(N, device="cuda")
    tail_kernel[(triton.cdiv(N, 128),)](x.cuda(), y, N, BLOCK=128, RIGHT=right)
    expect(y, x, right)


@triton.jit
def stride_kernel(x_ptr, y_ptr, columns, x_stride, y_stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    mask = i < columns
    x = tl.load(x_ptr + row * x_stride + i, mask=mask, other=0.0)  # out-of-bounds
    tl.store(y_ptr + row * y_stride + i, x, mask=mask)


@case
def stride_of_another_tensor(right):
    x, padded = random(6, 50), torch.zeros(6, 64).cuda()
    stride_kernel[(6,)](x.cuda(), padded, 50, 50 if right else 64, 64, BLOCK=64)
    expect(padded, torch.nn.functional.pad(x, (0, 14)), right)


@triton.jit
def rows_kernel(x_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    mask = (i < columns) & (row < rows) if RIGHT else i < columns
    x = tl.load(x_ptr + row * columns + i, mask=mask, other=0.0)  # out-of-bounds
    tl.store(y_ptr + tl.where(mask, row * columns + i, 0), x, mask=mask & (row < rows))


@case
def grid_of_the_next_power_of_two(right):
    x, y = random(5, 64), torch.empty(5, 64, device="cuda")
    rows_kernel[(triton.next_power_of_2(5),)](x.cuda(), y, 5, 64, BLOCK=64, RIGHT=right)
    expect(y, x, right)


@triton.jit
def difference_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = i >= 1 if RIGHT else i >= 0
    before = tl.load(x_ptr + i - 1, mask=first & (i < n), other=0.0)  # out-of-bounds
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) - before, mask=i < n)


@case
def element_before_the_first(right):
    x, y = random(N), torch.empty(N, device="cuda")
    difference_kernel[(triton.cdiv(N, 256),)](x.cuda(), y, N, BLOCK=256, RIGHT=right)
    expect(y, torch.diff(x, prepend=torch.zeros(1)), right)


@triton.jit
def embedding_kernel(token_ptr, table_ptr, y_ptr, D: tl.constexpr):
    t, d = tl.program_id(0), tl.arange(0, D)
    token = tl.load(token_ptr + t)
    tl.store(y_ptr + t * D + d, tl.load(table_ptr + token * D + d))  # out-of-bounds


@case
def token_beyond_the_table(right):
    tokens, table = torch.tensor([3, 9 if right else 10, 0]), random(10, 32)
    y = torch.empty(3, 32, device="cuda")
    embedding_kernel[(3,)](tokens.cuda(), table.cuda(), y, D=32)
    expect(y, table[tokens] if right else None, right)


@triton.jit
def sum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    total = tl.load(y_ptr + row)
    total += tl.sum(tl.load(x_ptr + row * n + i, mask=i < n, other=0.0))
    tl.store(y_ptr + row, total)  # uninitialized


@case
def output_not_cleared(right):
    x = random(4, 100)
    y = torch.zeros(4).cuda() if right else torch.empty(4, device="cuda")
    sum_kernel[(4,)](x.cuda(), y, 100, BLOCK=128)
    expect(y, x.sum(1), right)


@triton.jit
def half_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) / 2, mask=i < n)  # uninitialized


@case
def grid_too_small(right):
    x, y, z = random(N), torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
    half_kernel[(triton.cdiv(N, 256) if right else N // 256,)](x.cuda(), y, N, BLOCK=256)
    half_kernel[(triton.cdiv(N, 256),)](y, z, N, BLOCK=256)
    expect(z, x / 4, right)


@triton.jit
def total_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0))
    if RIGHT:
        tl.atomic_add(y_ptr, part)
    else:
        tl.store(y_ptr, tl.load(y_ptr) + part)  # data-race


@case
def sum_without_atomics(right):
    x, y = random(N), torch.zeros(1).cuda()
    total_kernel[(triton.cdiv(N, 128),)](x.cuda(), y, N, BLOCK=128, RIGHT=right)
    expect(y, x.sum().reshape(1), right, 1e-4)


@triton.jit
def split_kernel(x_ptr, part_ptr, flag_ptr, y_ptr, n, BLOCK: tl.constexpr, PARTS: tl.constexpr, RIGHT: tl.constexpr):
    p = tl.program_id(0)
    i = p * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + p, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))
    tl.debug_barrier()
    if RIGHT:
        arrived = tl.atomic_add(flag_ptr, 1, sem="acq_rel")
    else:
        arrived = tl.atomic_add(flag_ptr, 1, sem="relaxed")
    if arrived == PARTS - 1:
        tl.store(y_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, PARTS))))  # data-race


@case
def split_sum_with_a_relaxed_counter(right):
    x, y = random(N), torch.empty(1, device="cuda")
    parts, flag = torch.empty(8, device="cuda"), torch.zeros(1, dtype=torch.int32).cuda()
    split_kernel[(8,)](x.cuda(), parts, flag, y, N, BLOCK=128, PARTS=8, RIGHT=right)
    expect(y, x.sum().reshape(1), right, 1e-4)


@triton.jit
def reverse_kernel(x_ptr, scratch_ptr, y_ptr, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(scratch_ptr + i, tl.load(x_ptr + i))  # data-race
    if RIGHT:
        tl.debug_barrier()
    tl.store(y_ptr + i, tl.load(scratch_ptr + BLOCK - 1 - i))


@case
def exchange_without_a_barrier(right):
    x, scratch, y = random(512), torch.zeros(512).cuda(), torch.empty(512, device="cuda")
    reverse_kernel[(1,)](x.cuda(), scratch, y, BLOCK=512, RIGHT=right)
    expect(y, x.flip(0), right)


@triton.jit
def shift_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + 1, mask=i < n - 1, other=0.0)
    tl.store(y_ptr + i, x, mask=i < n)  # data-race


@case
def shift_in_place(right):
    x = random(N)
    here = x.cuda()
    y = torch.empty(N, device="cuda") if right else here
    shift_kernel[(triton.cdiv(N, 128),)](here, y, N, BLOCK=128)
    expect(y, torch.cat([x[1:], torch.zeros(1)]), right)


@triton.jit
def column_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr, AXIS: tl.constexpr):
    row, i = tl.program_id(AXIS), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    source = tl.program_id(0)
    x = tl.load(x_ptr + source * columns + i, mask=i < columns)
    tl.store(y_ptr + row * columns + i, x, mask=i < columns)  # data-race


@case
def wrong_axis_of_the_grid(right):
    x, y = random(4, 100), torch.empty(4, 100, device="cuda")
    column_kernel[(4, 1)](x.cuda(), y, 100, BLOCK=128, AXIS=0 if right else 1)
    expect(y, x, right)


@triton.jit
def count_kernel(y_ptr, SCOPE: tl.constexpr):
    tl.atomic_add(y_ptr, 1, scope=SCOPE)  # data-race


@case
def atomic_of_the_block_only(right):
    y = torch.zeros(1, dtype=torch.int32).cuda()
    count_kernel[(16,)](y, SCOPE="gpu" if right else "cta")
    expect(y, torch.tensor([16], dtype=torch.int32), right)


@case
def stream_without_a_wait(right):
    x, y, z = random(N).cuda(), torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
    side = torch.cuda.Stream()
    if right:
        side.wait_stream(torch.cuda.current_stream())
    load_mask_kernel[(triton.cdiv(N, 256),)](x, y, N, BLOCK=256, RIGHT=True)
    if right:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        after_kernel[(triton.cdiv(N, 256),)](y, z, N, BLOCK=256)
    expect(z, x.cpu() * 2 + 1, right)


@triton.jit
def after_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)  # data-race
    tl.store(y_ptr + i, x + 1, mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, RIGHT: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (i < n) if RIGHT or BLOCK == 128 else (i < n + 1)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=mask)  # out-of-bounds


@case
def one_configuration_of_several(right):
    x, y = random(N), torch.empty(N, device="cuda")
    tuned_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x.cuda(), y, N, RIGHT=right)
    expect(y, x, right)


# ---- right in any case, and easily mistaken for wrong ----


@triton.jit
def in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@case
def update_by_more_threads_than_elements(right):
    x = random(N)
    y = x.cuda()
    in_place_kernel[(triton.cdiv(N, 32),)](y, N, BLOCK=32, num_warps=4)
    expect(y, x * 2, True)


@triton.jit
def combine(mean, squares, count, other_mean, other_squares, other_count):
    total = count + other_count
    share = other_count / total
    delta = other_mean - mean
    return mean + delta * share, squares + other_squares + delta * delta * count * share, total


@triton.jit
def variance_kernel(x_ptr, y_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    _, squares, count = tl.reduce((x, tl.zeros_like(x), tl.full(x.shape, 1.0, tl.float32)), 1, combine)
    tl.store(y_ptr + tl.arange(0, ROWS), squares / count)


@case
def welford(right):
    x, y = random(32, 64), torch.empty(32, device="cuda")
    variance_kernel[(1,)](x.cuda(), y, 32, 64)
    expect(y, x.var(1, unbiased=False), True)


@triton.jit
def eight_bits_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(tl.float8e4nv).to(tl.float32))


@case
def one_element_of_a_packed_conversion(right):
    x, y = random(128), torch.empty(128, device="cuda")
    eight_bits_kernel[(1,)](x.cuda(), y, BLOCK=128)
    expect(y, x.to(torch.float8_e4m3fn).float(), True)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@case
def matmul(right):
    a, b, c = random(70, 80).half(), random(80, 50).half(), torch.empty(70, 50, device="cuda")
    matmul_kernel[(2, 1)](a.cuda(), b.cuda(), c, 70, 50, 80, BM=64, BN=64, BK=32)
    expect(c, a.float() @ b.float(), True, 1e-2)


if __name__ == "__main__":
    variant, names = sys.argv[1], sys.argv[2:]
    for name, function in CASES.items():
        if not names or name in names:
            function(variant == "right")
            torch.cuda.synchronize()
