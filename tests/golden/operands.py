"""Operands that matter, by kind: a stored set, and a long pseudo-random stream.

The stream is defined here and, bit for bit the same, in golden.h: results over
it are kept only as a hash.
"""

import numpy as np

from forms import WIDTH

U64 = np.uint64
GOLDEN_RATIO = 0x9E3779B97F4A7C15


def u(x):
    return x.astype(U64) if isinstance(x, np.ndarray) else np.array(x, dtype=U64)


def mix(x):
    """splitmix64's finaliser, after one step of its counter."""
    with np.errstate(over="ignore"):
        z = x + U64(GOLDEN_RATIO)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        return z ^ (z >> U64(31))


def name_seed(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & (2**64 - 1)
    return h


def choose(select, cases):
    return np.select([select == U64(i) for i in range(len(cases))], cases, cases[-1])


def shape_f32(r):
    v = mix(r) & U64(0xFFFFFFFF)
    n = (r >> U64(3)) & U64(31)
    short = v & (U64(0xFFFFFFFF) << n) & U64(0xFFFFFFFF)
    near = (v & U64(0x80FFFFFF)) + U64(0x3F000000)
    wide = (v & U64(0x83FFFFFF)) + U64(0x3E000000)
    huge = (v & U64(0x81FFFFFF)) | U64(0x7E000000)
    tiny = v & U64(0x80FFFFFF)
    return choose(r & U64(7), [v, short, tiny, near, near, near, wide, huge])


def shape_f64(r):
    v = mix(r)
    n = (r >> U64(3)) & U64(63)
    short = v & (U64(0xFFFFFFFFFFFFFFFF) << n)
    near = (v & U64(0x801FFFFFFFFFFFFF)) + U64(0x3FE0000000000000)
    wide = (v & U64(0x807FFFFFFFFFFFFF)) + U64(0x3FC0000000000000)
    huge = (v & U64(0x803FFFFFFFFFFFFF)) | U64(0x7FC0000000000000)
    tiny = v & U64(0x801FFFFFFFFFFFFF)
    return choose(r & U64(7), [v, short, tiny, near, near, near, wide, huge])


def shape_f16(r):
    v = mix(r) & U64(0xFFFF)
    n = (r >> U64(3)) & U64(15)
    short = v & (U64(0xFFFF) << n) & U64(0xFFFF)
    near = (v & U64(0x87FF)) + U64(0x3800)
    return choose(r & U64(7), [v, v, v, v, short, v & U64(0x83FF), near, near])


def shape_bf16(r):
    v = mix(r) & U64(0xFFFF)
    n = (r >> U64(3)) & U64(15)
    short = v & (U64(0xFFFF) << n) & U64(0xFFFF)
    near = (v & U64(0x80FF)) + U64(0x3F00)
    return choose(r & U64(7), [v, v, v, v, short, v & U64(0x807F), near, near])


def shape_int(r, width):
    ones = U64(2**width - 1)
    v = mix(r) & ones
    n = (r >> U64(3)) & U64(width - 1)
    small = v & ((U64(1) << n) - U64(1))
    with np.errstate(over="ignore"):
        power = (((U64(1) << n) + (v & U64(3))) - U64(1)) & ones
    return choose(r & U64(7), [v, v, small, small, ~small & ones, power, v, v])


def shape_pos(r):
    v = mix(r) & U64(0xFFFFFFFF)
    low = v & U64(31)
    return choose(r & U64(7), [low, low, low, low, v & U64(63), v & U64(255), v, v & U64(7)])


def pair(each, r):
    with np.errstate(over="ignore"):
        return each(r) | each(mix(r + U64(1))) << U64(16)


def shape(kind, r):
    if kind in ("f32", "tf32"):
        return shape_f32(r)
    if kind == "f64":
        return shape_f64(r)
    if kind == "f16":
        return shape_f16(r)
    if kind == "bf16":
        return shape_bf16(r)
    if kind == "f16x2":
        return pair(shape_f16, r)
    if kind == "bf16x2":
        return pair(shape_bf16, r)
    if kind == "pos":
        return shape_pos(r)
    if kind in ("u8", "s8"):
        return mix(r) & U64(0xFF)
    return shape_int(r, WIDTH[kind])


def stream(name, kinds, count):
    """The operands of the hashed run: count tuples, one array a kind."""
    index = np.arange(count, dtype=U64)
    if len(kinds) == 1 and WIDTH[kinds[0]] == 16:  # small enough to take them all
        return [index & U64(0xFFFF)]
    with np.errstate(over="ignore"):
        base = U64(name_seed(name)) + index * U64(4)
        return [shape(kind, mix(base + U64(j))) for j, kind in enumerate(kinds)]


def stream_count(kinds):
    return 65536 if len(kinds) == 1 and WIDTH[kinds[0]] == 16 else 16384


def digest(results):
    index = np.arange(len(results), dtype=U64)
    with np.errstate(over="ignore"):
        return int(np.sum(mix(u(results) ^ mix(index)), dtype=U64))


# ---- stored sets -------------------------------------------------------------

F32 = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800001, 0x3F800000, 0xBF800000,
       0x3F7FFFFF, 0x3F800001, 0x40000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
       0xFF812345, 0x33800000,
       0x3F000000, 0xBF000000, 0x3EFFFFFF, 0x3F000001, 0x3FC00000, 0x40200000, 0xC0200000, 0x40600000,
       0x42FE0000, 0x42FF0000, 0x43000000, 0xC3000000, 0xC3008000, 0x437F0000, 0x437F8000, 0x43800000,
       0x46FFFE00, 0x46FFFF00, 0x47000000, 0xC7000000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x477FFF00,
       0x47800000, 0x4B000001, 0x4B7FFFFF, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0xCF000001, 0x4F7FFFFF,
       0x4F800000, 0x5EFFFFFF, 0x5F000000, 0xDF000000, 0x5F7FFFFF, 0x5F800000, 0x7F7F7FFF, 0x7F7F8000,
       0x38800000, 0x387FF000, 0x387FE001, 0x33000000, 0x33000001, 0x32FFFFFF, 0x33C00000, 0x43E00000,
       0x43E80000, 0x43E80001, 0x43F00000, 0x3C800000, 0x3B000000, 0x3A800000, 0x3A800001, 0x3C700000,
       0x47600000, 0x47680000, 0x47700000, 0x37800000, 0x37000000, 0x37000001, 0x3F808000, 0x3F818000,
       0x3F807FFF, 0x3F808001, 0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001, 0x7F7FF000, 0x7F7FEFFF,
       0xC2FC0000, 0xC3160000, 0xC3150000, 0x42FFFFFF, 0x3FC90FDB, 0x40490FDB, 0x4B000000, 0x7E800000,
       0x7E800001, 0x7F000000, 0x00400000, 0x80000001, 0x7FFFFFFF, 0x7F800001]
F64 = [0, 1 << 63, 1, (1 << 63) | 0xFFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000001, 0x3FF0000000000000,
       0xBFF0000000000000, 0x3FEFFFFFFFFFFFFF, 0x3FF0000000000001, 0x4000000000000000, 0x7FEFFFFFFFFFFFFF,
       0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF0123456789ABC,
       0x3CA0000000000000,
       0x7FFC000000000123, 0x3FE0000000000000, 0xBFE0000000000000, 0x3FF8000000000000, 0x4004000000000000,
       0xC004000000000000, 0x400C000000000000, 0x41DFFFFFFFC00000, 0x41DFFFFFFFE00000, 0x41E0000000000000,
       0xC1E0000000000000, 0xC1E0000000100000, 0xC1E0000000200000, 0x41EFFFFFFFE00000, 0x41EFFFFFFFF00000,
       0x41F0000000000000, 0x43DFFFFFFFFFFFFF, 0x43E0000000000000, 0xC3E0000000000000, 0xC3E0000000000001,
       0x43EFFFFFFFFFFFFF, 0x43F0000000000000, 0x4330000000000001, 0x47EFFFFFE0000000, 0x47EFFFFFEFFFFFFF,
       0x47EFFFFFF0000000, 0x47F0000000000000, 0x3810000000000000, 0x380FFFFFE0000000, 0x380FFFFFF0000000,
       0x36A0000000000000, 0x3690000000000000, 0x3690000000000001, 0x368FFFFFFFFFFFFF, 0x3FF0000010000000,
       0x3FF0000030000000, 0x3FF0000010000001, 0x40EFFC0000000000, 0x40EFFE0000000000, 0x40EFFDFFFFFFFFFF,
       0x3F10000000000000, 0x3E60000000000000, 0x3E60000000000001, 0x3FF0020000000000, 0x3FF0060000000000,
       0x3FF0100000000000, 0x3FF0300000000000, 0x7FD0000000000000, 0x0008000000000000]
F16 = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x8401, 0x3C00, 0xBC00, 0x3BFF, 0x3C01, 0x4000, 0x7BFF, 0xFBFF,
       0x7C00, 0xFC00, 0x7E00, 0xFC01, 0x1000,
       0x7FFF, 0x3800, 0xB800, 0x37FF, 0x3E00, 0x4100, 0xC100, 0x4380, 0x57F0, 0x5800, 0xD800, 0xD808, 0x5BF8,
       0x5BFC, 0x5C00, 0x77FF, 0x7800, 0xF800, 0x5F00, 0x5F40, 0x5F41, 0x5F80, 0x2400, 0x1800, 0x1400, 0x1401,
       0x7B00, 0x7B40, 0x7B80, 0x0200, 0x0100, 0x0080, 0x0081, 0x3C40, 0x3CC0, 0x3C3F, 0x3C80, 0x4C00, 0xCC00,
       0x0002, 0x0003, 0x8001]
BF16 = [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x8081, 0x3F80, 0xBF80, 0x3F7F, 0x3F81, 0x4000, 0x7F7F, 0xFF7F,
        0x7F80, 0xFF80, 0x7FC0, 0xFF81, 0x3380,
        0x7FFF, 0x3F00, 0xBF00, 0x3EFF, 0x3FC0, 0x4020, 0xC020, 0x4060, 0x42FE, 0x42FF, 0x4300, 0xC300, 0xC301,
        0x437F, 0x4380, 0x46FF, 0x4700, 0xC700, 0x477F, 0x4780, 0x4EFF, 0x4F00, 0xCF00, 0x4F7F, 0x4F80, 0x5EFF,
        0x5F00, 0xDF00, 0x5F7F, 0x5F80, 0x3880, 0x387F, 0x3300, 0x3301, 0x3280, 0x4320, 0xC320, 0x0040, 0x0002,
        0x0003, 0x8001]
# Pairs whose exact product is just below the smallest normal number but rounds up to it.
F32_TININESS = [(0x3F7FFFFE, 0x00800001), (0x3F7FFFFF, 0x00800000), (0x3F000000, 0x00FFFFFF), (0x3F7FFFFD, 0x00800001),
                (0xBF7FFFFE, 0x00800001), (0x3F000001, 0x00FFFFFE), (0x20000000, 0x20000000), (0x1F800000, 0x20000000)]


def ints(width, signed_first):
    top = 1 << (width - 1)
    full = (1 << width) - 1
    few = [0, 1, 2, 3, 7, full, full - 1, top, top - 1, top + 1, 0x80 & full, 0x7F, 0xFF & full, 0x55555555_55555555 & full,
           0x12345678_9ABCDEF0 & full, 100, 10, full - 6]
    more = [1 << k for k in range(0, width, 3)] + [(1 << k) - 1 for k in range(2, width, 5)]
    more += [full - (1 << k) for k in range(0, width, 7)]
    return few + [x & full for x in more if x & full not in few]


def specials(kind):
    if kind in ("f32", "tf32"):
        return F32
    if kind == "f64":
        return F64
    if kind == "f16":
        return F16
    if kind == "bf16":
        return BF16
    if kind in ("f16x2", "bf16x2"):
        base = F16 if kind == "f16x2" else BF16
        return [base[i] | base[(i * 7 + 5) % len(base)] << 16 for i in range(len(base))]
    if kind in ("e4m3x2", "e5m2x2"):
        return [i | ((i * 37 + 11) & 255) << 8 for i in range(256)]
    if kind == "pos":
        return [0, 1, 2, 5, 7, 8, 15, 16, 24, 30, 31, 32, 33, 40, 48, 63, 64, 65, 127, 128, 254, 255, 256, 257,
                0xFFFFFFFF, 0xFFFFFFFE, 0x80000000, 0x1F00, 0x7FFFFFFF, 100, 3, 4]
    if kind in ("u8", "s8"):
        return [0, 1, 2, 0x7F, 0x80, 0x81, 0xFF, 0xFE, 0x55, 100, 10, 0x40, 0x3F, 0xC0, 9, 17]
    return ints(WIDTH[kind], kind[0] == "s")


def stored(kinds, video=False):
    """The tuples kept with their results: crossed special values, then mixed ones."""
    total = {1: 192, 2: 352, 3: 320}[len(kinds)]
    if video:
        total = 48
    seed = name_seed("stored " + " ".join(kinds))
    lists = [specials(k) for k in kinds]
    tuples = []
    if len(kinds) == 1:
        tuples = [(x,) for x in lists[0]]
    elif len(kinds) == 2:
        tuples = [(x, y) for x in lists[0][:16] for y in lists[1][:16]]
        if kinds == ("f32", "f32"):
            tuples = F32_TININESS + tuples
    elif kinds == ("f32", "f32", "f32"):
        tuples = [(x, y, z) for x, y in F32_TININESS for z in (0, 0x80000000, 1)]
    if video:
        tuples = tuples[::7][:24]
    tuples = tuples[:total]
    left = total - len(tuples)
    index = np.arange(left, dtype=U64)
    columns = []
    with np.errstate(over="ignore"):
        for j, kind in enumerate(kinds):
            r = mix(U64(seed) + index * U64(8) + U64(j))
            table = u(lists[j])
            special = table[(mix(r + U64(7)) % U64(len(table))).astype(np.int64)]
            columns.append(np.where((r >> U64(40)) % U64(3) == 0, special, shape(kind, r)))
    arrays = []
    for j in range(len(kinds)):
        head = u([t[j] for t in tuples]) if tuples else u([])
        arrays.append(np.concatenate([head, columns[j]]))
    return arrays
