#!/usr/bin/env python3
"""Records what a real GPU computes. See README.md beside this file.

  generate.py --check              assemble everything, list the forms that the assembler refuses
  generate.py --out FOLDER         run on the GPU, write FOLDER/<family>.gold
"""

import argparse
import os
import re
import struct
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import emit  # noqa: E402
import forms  # noqa: E402
import mma  # noqa: E402
import operands  # noqa: E402

MAGIC = b"assay golden 1\n"
DTYPE = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def family(form):
    name = form.name
    if name.startswith("cvt"):
        return "cvt"
    if re.match(r"v(add|sub|absdiff|min|max|shl|shr|set|mad|avrg)", name):
        return "video"
    if re.match(r"atom|red\.", name):
        return "atomic"
    if re.match(r"shfl|vote|match|redux", name):
        return "warp"
    kinds = set(form.operands) | {form.result}
    if kinds & {"f64"}:
        return "f64"
    if kinds & {"f16", "bf16", "f16x2", "bf16x2"}:
        return "half"
    return "f32" if "f32" in kinds else "integer"


def record(header, arrays):
    text = "".join(f"{key}: {value}\n" for key, value in header).encode() + b"\n"
    return struct.pack("<I", len(text)) + text + b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)


def scalar_record(gpu, function, form):
    dtypes = [DTYPE[forms.WIDTH[k]] for k in form.operands]
    out_dtype = DTYPE[forms.WIDTH[form.result]]
    columns = operands.stored(form.operands, video=family(form) == "video")
    count = len(columns[0])
    bulk = operands.stream_count(form.operands)
    stream = operands.stream(form.name, form.operands, bulk)
    both = [np.concatenate([c, s]).astype(d) for c, s, d in zip(columns, stream, dtypes)]
    out = np.zeros(count + bulk, dtype=out_dtype)
    gpu.run(function, both, out, count + bulk, (count + bulk + 255) // 256, 256)
    header = [("form", form.name), ("text", form.text), ("kinds", " ".join((form.result,) + form.operands)),
              ("count", count), ("stream", bulk), ("hash", f"{operands.digest(out[count:]):016x}")]
    return record(header, [b[:count] for b in both] + [out[:count]])


def mma_record(gpu, function, form, stored=mma.CLASSES, bulk=64 * mma.CLASSES):
    inputs, out = mma.run_form(gpu, function, form, bulk)
    header = [("form", form.name), ("kinds", f"{form.d} {form.a} {form.b} {form.c}"),
              ("shape", f"{form.m} {form.n} {form.k}"),
              ("registers", " ".join(str(form.registers(w)[0]) for w in "dabc")),
              ("count", stored), ("stream", bulk), ("hash", f"{mma.hashed(out):016x}")]
    return record(header, [i[:stored] for i in inputs] + [out[:stored]])


def build_mma(folder, ptxas):
    """As emit.build, for the mma kernels."""
    members, refused = list(mma.FORMS), []
    path = os.path.join(folder, "mma")
    while True:
        text, owner = mma.module(members)
        code, output = emit.assemble(text, path, ptxas)
        if code == 0:
            return members, refused, path + ".cubin"
        bad = {owner[int(n) - 1] for n in re.findall(r"line (\d+)", output) if int(n) <= len(owner)}
        bad.discard(None)
        if not bad:
            raise RuntimeError(output[:2000])
        refused += [members[i] for i in sorted(bad)]
        members = [m for i, m in enumerate(members) if i not in bad]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--ptxas", default="ptxas")
    args = parser.parse_args()
    if not args.check and not args.out:
        parser.error("one of --check and --out is needed")

    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        modules, refused = emit.build(forms.FORMS, folder, args.ptxas)
        mma_forms, mma_refused, mma_cubin = build_mma(folder, args.ptxas)
        print(f"assembled {sum(len(m) for m, _ in modules)} forms, {len(refused)} refused; "
              f"{len(mma_forms)} mma forms, {len(mma_refused)} refused; {time.time() - start:.1f} s")
        if args.check:
            print("\n".join(f.name for f in refused + mma_refused))
            return
        from gpu import Gpu
        gpu = Gpu()
        families = {}
        for members, cubin in modules:
            module = gpu.load(cubin)
            for i, form in enumerate(members):
                data = scalar_record(gpu, gpu.function(module, f"k{i}"), form)
                families.setdefault(family(form), []).append(data)
        module = gpu.load(mma_cubin)
        for i, form in enumerate(mma_forms):
            families.setdefault("mma", []).append(mma_record(gpu, gpu.function(module, f"k{i}"), form))
        os.makedirs(args.out, exist_ok=True)
        for name, records in families.items():
            with open(os.path.join(args.out, name + ".gold"), "wb") as f:
                f.write(MAGIC + b"".join(records))
            print(f"{name}: {len(records)} forms")
    print(f"{time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
