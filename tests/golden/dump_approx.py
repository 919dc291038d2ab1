#!/usr/bin/env python3
"""Dumps what the approximate functions return over whole binades, for the recovery of their tables.

Each file holds, compressed, the first differences of the result bits over consecutive inputs:
smooth functions make these tiny. Usage: dump_approx.py FOLDER
"""

import lzma
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import emit  # noqa: E402
from forms import FORMS  # noqa: E402

ONE = 0x3F800000
BINADE = 1 << 23


def binades(first, last, sign=0):
    """Inputs from 2^first up to 2^last."""
    return (sign | (ONE + first * BINADE), (last - first) * BINADE)


SIGN = 0x80000000
RANGES = {
    "rcp.approx.ftz.f32": [binades(0, 1)],
    "rsqrt.approx.ftz.f32": [binades(0, 2)],
    "sqrt.approx.ftz.f32": [binades(0, 2)],
    "lg2.approx.ftz.f32": [binades(-1, 0), binades(0, 1), binades(1, 2)],
    "ex2.approx.ftz.f32": [binades(-2, 0), binades(0, 2), binades(-1, 1, SIGN)],
    "sin.approx.ftz.f32": [binades(0, 3)],
    "cos.approx.ftz.f32": [binades(0, 3)],
    "tanh.approx.f32": [binades(-13, -4), binades(-4, 4)],
}


def pack(results):
    return lzma.compress(np.diff(results.astype(np.int64), prepend=0).astype(np.int32).tobytes(), preset=1)


def main(folder):
    from gpu import Gpu
    gpu = Gpu()
    os.makedirs(folder, exist_ok=True)
    chosen = [f for f in FORMS if f.name in RANGES or (len(f.operands) == 1 and f.name.startswith(("ex2.approx", "tanh.approx")))
              or f.name in ("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64")]
    jobs = {}
    with tempfile.TemporaryDirectory() as temp:
        modules, _ = emit.build(chosen, temp)
        for members, cubin in modules:
            module = gpu.load(cubin)
            for i, form in enumerate(members):
                function = gpu.function(module, f"k{i}")
                if form.operands == ("f32",):
                    for start, count in RANGES.get(form.name, []):
                        inputs = (np.arange(count, dtype=np.uint64) + start).astype(np.uint32)
                        out = np.zeros(count, dtype=np.uint32)
                        gpu.run(function, [inputs], out, count, (count + 255) // 256, 256)
                        jobs[f"{form.name}-{start:08x}-{count}"] = out
                elif form.operands in (("f16",), ("bf16",)):
                    inputs = np.arange(65536, dtype=np.uint16)
                    out = np.zeros(65536, dtype=np.uint16)
                    gpu.run(function, [inputs], out, 65536, 256, 256)
                    jobs[f"{form.name}-0-65536"] = out
                elif form.operands == ("f64",):  # of the high word; three values of the low one
                    for low in (0, 0xFFFFFFFF):
                        count = 2 << 20
                        inputs = ((np.arange(count, dtype=np.uint64) + 0x3FF00000) << np.uint64(32)) | np.uint64(low)
                        out = np.zeros(count, dtype=np.uint64)
                        gpu.run(function, [inputs], out, count, (count + 255) // 256, 256)
                        assert not (out & np.uint64(0xFFFFFFFF)).any()
                        jobs[f"{form.name}-{low:x}-{count}"] = (out >> np.uint64(32)).astype(np.uint32)
    with ProcessPoolExecutor() as pool:
        for name, data in zip(jobs, pool.map(pack, jobs.values())):
            with open(os.path.join(folder, name + ".xz"), "wb") as f:
                f.write(data)
            print(name, len(data))


if __name__ == "__main__":
    main(sys.argv[1])
