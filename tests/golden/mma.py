"""mma.sync: the forms, their registers, and operands for them.

A case is one warp's instruction. Operands and results are stored as the lanes
hold them: [case][lane][register], so that the fragment layouts are tested too.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from emit import HEADER
from operands import U64, digest, mix, name_seed, u

# exponent bits, fraction bits, bias, has infinity
FLOATS = {"f16": (5, 10, 15, True), "bf16": (8, 7, 127, True), "tf32": (8, 23, 127, True), "f32": (8, 23, 127, True),
          "f64": (11, 52, 1023, True), "e4m3": (4, 3, 7, False), "e5m2": (5, 2, 15, True)}
ELEMENT = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s32": 32, "u8": 8, "s8": 8,
           "u4": 4, "s4": 4, "b1": 1}


@dataclass(frozen=True)
class Mma:
    name: str
    d: str
    a: str
    b: str
    c: str
    m: int
    n: int
    k: int

    def registers(self, which):
        """How many registers a lane holds of matrix d, a, b or c, and how wide they are."""
        kind = getattr(self, which)
        size = {"d": self.m * self.n, "c": self.m * self.n, "a": self.m * self.k, "b": self.k * self.n}[which]
        width = 64 if kind == "f64" else 32
        if (self.m, self.n, self.k) == (8, 8, 4) and self.a == "f16":
            size *= 4  # four independent products, a quad-pair each
        return size * ELEMENT[kind] // (32 * width), width


FORMS = []


def add(shape, tail, d, a, b, c, layout="row.col", prefix=""):
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    name = f"mma.sync.aligned.{shape}.{layout}{prefix}.{d}.{a}.{b}.{c}{tail}"
    FORMS.append(Mma(name, d, a, b, c, int(m), int(n), int(k)))


for shape in ("m16n8k8", "m16n8k16"):
    add(shape, "", "f16", "f16", "f16", "f16")
    add(shape, "", "f32", "f16", "f16", "f32")
    add(shape, "", "f32", "bf16", "bf16", "f32")
for la, lb in product(("row", "col"), repeat=2):
    for d, c in product(("f16", "f32"), repeat=2):
        add("m8n8k4", "", d, "f16", "f16", c, f"{la}.{lb}")
for shape in ("m16n8k4", "m16n8k8"):
    add(shape, "", "f32", "tf32", "tf32", "f32")
for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
    for r in ("", ".rz", ".rm", ".rp"):
        add(shape, "", "f64", "f64", "f64", "f64", prefix=r)
for shape in ("m16n8k16", "m16n8k32"):
    for a, b, d in product(("e4m3", "e5m2"), ("e4m3", "e5m2"), ("f32", "f16")):
        add(shape, "", d, a, b, d)
for shape in ("m8n8k16", "m16n8k16", "m16n8k32"):
    for a, b, s in product(("u8", "s8"), ("u8", "s8"), ("", ".satfinite")):
        add(shape, "", "s32", a, b, "s32", prefix=s)
for shape in ("m8n8k32", "m16n8k32", "m16n8k64"):
    for a, b, s in product(("u4", "s4"), ("u4", "s4"), ("", ".satfinite")):
        add(shape, "", "s32", a, b, "s32", prefix=s)
for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
    for op in (".xor.popc", ".and.popc"):
        add(shape, op, "s32", "b1", "b1", "s32")


def kernel(index, form):
    lines = [f".visible .entry k{index}(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 count) {{",
             " .reg .b32 %w, %l, %n; .reg .b64 %at, %off;",
             " mov.u32 %w, %ctaid.x; mov.u32 %l, %tid.x; mad.lo.u32 %w, %w, 32, %l;"]
    lists = {}
    for which in "abcd":
        count, width = form.registers(which)
        names = [f"%{which}{i}" for i in range(count)]
        lists[which] = "{" + ", ".join(names) + "}"
        kind = ".f64" if getattr(form, which) == "f64" else (".f32" if getattr(form, which) == "f32" else ".b32")
        lines.append(f" .reg {kind} {', '.join(names)};")
        if which != "d":
            lines.append(f" ld.param.u64 %at, [p{which}]; mul.wide.u32 %off, %w, {count * width // 8}; add.u64 %at, %at, %off;")
            lines += [f" ld.global.b{width} {name}, [%at+{i * width // 8}];" for i, name in enumerate(names)]
    lines.append(f" {form.name} {lists['d']}, {lists['a']}, {lists['b']}, {lists['c']};")
    count, width = form.registers("d")
    lines.append(f" ld.param.u64 %at, [pd]; mul.wide.u32 %off, %w, {count * width // 8}; add.u64 %at, %at, %off;")
    lines += [f" st.global.b{width} [%at+{i * width // 8}], %d{i};" for i in range(count)]
    lines.append(" ret; }")
    return lines


# ---- operands: the same definition is in golden.h --------------------------------

SPREAD = [1, 3, 6, 12, 0, 0, 12, 3, 1]
CLASSES = len(SPREAD)


def float_element(kind, kind_class, r, accumulator):
    """One element by its case's class: narrow to wide exponents, short fractions, all exponents,
    subnormals, specials, and zeros of both signs with little else."""
    ebits, mbits, bias, has_inf = FLOATS[kind]
    emax = 2**ebits - (2 if has_inf else 1)
    fraction = r & U64(2**mbits - 1)
    sign = r >> U64(63)
    spread = u(np.array(SPREAD)[kind_class])
    if accumulator:
        spread = spread * U64(2) + U64(3)
    choice = (r >> U64(53)) & U64(1023)
    exponent = u(bias) + choice % (spread * U64(2) + U64(1)) - spread  # may wrap below zero
    exponent = np.where(exponent > U64(1 << 40), U64(0), np.minimum(exponent, U64(emax)))
    anywhere = choice % U64(min(emax + 1, 1024))
    if accumulator or kind in ("bf16", "tf32", "f64"):  # keep the products of wide formats in sight of each other
        anywhere = u(max(bias - 40, 0)) + choice % U64(min(80, emax))
        anywhere = np.minimum(anywhere, U64(emax))
    exponent = np.where(kind_class == 5, anywhere, exponent)
    exponent = np.where((kind_class == 6) & ((choice & U64(1)) == U64(1)), U64(0), exponent)
    fraction = np.where(kind_class == 4, fraction & U64((2**mbits - 1) & ~((2**mbits - 1) >> 2)), fraction)
    if not has_inf:  # e4m3: all ones is NaN, kept for the class of specials
        fraction = np.where((exponent == U64(emax)) & (fraction == U64(2**mbits - 1)), U64(0), fraction)
    code = sign << U64(ebits + mbits) | exponent << U64(mbits) | fraction
    top = U64((2**ebits - 1) << mbits)
    special = [sign << U64(ebits + mbits), top, top | sign << U64(ebits + mbits), top | U64(2**mbits - 1), top | U64(1)]
    which = (r >> U64(16)) % U64(64)
    for i, value in enumerate(special):
        code = np.where((kind_class == 7) & (which == U64(i)), value, code)
    zero = (kind_class == 8) & ((r >> U64(20)) % U64(8) != U64(0))
    return np.where(zero, sign << U64(ebits + mbits), code)


def registers_of(form, which, cases):
    """[case][lane][register] for one operand, as uint64."""
    kind = getattr(form, which)
    count, width = form.registers(which)
    per = width // ELEMENT[kind]
    shape = (cases, 32, count, per)
    index = np.arange(cases * 32 * count * per, dtype=U64).reshape(shape)
    with np.errstate(over="ignore"):
        r = mix(mix(U64(name_seed(form.name + " " + which))) + index)
    kind_class = np.broadcast_to((np.arange(cases) % CLASSES).reshape(cases, 1, 1, 1), shape)
    if kind in FLOATS:
        element = float_element(kind, kind_class, r, which == "c")
    else:
        element = r >> U64(64 - ELEMENT[kind])
        if which == "c":
            element = np.where(kind_class % 2 == 0, element & U64(0xFFFF), element)
    packed = np.zeros(shape[:3], dtype=U64)
    for i in range(per):
        packed |= element[..., i] << U64(i * ELEMENT[kind])
    return packed


def run_form(gpu, function, form, cases):
    inputs = []
    for which in "abc":
        _, width = form.registers(which)
        inputs.append(registers_of(form, which, cases).astype(np.uint64 if width == 64 else np.uint32))
    count, width = form.registers("d")
    out = np.zeros((cases, 32, count), dtype=np.uint64 if width == 64 else np.uint32)
    gpu.run(function, inputs, out, cases, cases, 32)
    return inputs, out


def hashed(out):
    return digest(out.reshape(-1))


def module(forms):
    lines = HEADER.splitlines()
    owner = [None] * len(lines)
    for i, form in enumerate(forms):
        body = kernel(i, form)
        lines += body
        owner += [i] * len(body)
    return "\n".join(lines) + "\n", owner
