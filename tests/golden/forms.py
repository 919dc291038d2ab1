"""The instruction forms whose results are recorded on hardware.

A Form is one instruction (or a short sequence) with placeholders %d for the
result and %a %b %c for the operands. The kinds say what the bits mean, which
decides the operands that are worth trying; the registers are plain .b16, .b32
or .b64 by the kind's width.
"""

from dataclasses import dataclass
from itertools import product

WIDTH = {
    "pred": 32, "u8": 16, "s8": 16, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "e4m3x2": 16, "e5m2x2": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32,
    "u16x2": 32, "s16x2": 32, "pos": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64,
}


@dataclass(frozen=True)
class Form:
    name: str      # unique; the instruction's dotted name, plus what distinguishes it
    text: str
    result: str    # kind
    operands: tuple


FORMS = []


def form(name, result, operands, text=None):
    operands = tuple(operands.split()) if isinstance(operands, str) else tuple(operands)
    if text is None:
        text = name + " %d, " + ", ".join("%" + "abc"[i] for i in range(len(operands))) + ";"
    FORMS.append(Form(name, text, result, operands))


def options(*choices):
    """All ways to take one of each choice: options(("", ".ftz"), ("", ".sat"))."""
    return ["".join(p) for p in product(*choices)]


ROUND = (".rn", ".rz", ".rm", ".rp")
FTZ = ("", ".ftz")
SAT = ("", ".sat")
FLOAT_COMPARE = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split()
TESTP = "finite infinite number notanumber normal subnormal".split()


def floats():
    for m in options(ROUND, FTZ, SAT):
        for op in ("add", "sub", "mul"):
            form(f"{op}{m}.f32", "f32", "f32 f32")
        form(f"fma{m}.f32", "f32", "f32 f32 f32")
    for m in options(("",), FTZ, SAT):
        for op in ("add", "sub", "mul"):
            form(f"{op}{m}.f32", "f32", "f32 f32")
    for m in options(ROUND, FTZ):
        form(f"div{m}.f32", "f32", "f32 f32")
        form(f"rcp{m}.f32", "f32", "f32")
        form(f"sqrt{m}.f32", "f32", "f32")
    for m in FTZ:
        form(f"div.approx{m}.f32", "f32", "f32 f32")
        form(f"div.full{m}.f32", "f32", "f32 f32")
        for op in "rcp sqrt rsqrt sin cos lg2 ex2".split():
            form(f"{op}.approx{m}.f32", "f32", "f32")
        form(f"neg{m}.f32", "f32", "f32")
        form(f"abs{m}.f32", "f32", "f32")
        for c in FLOAT_COMPARE:
            form(f"setp.{c}{m}.f32", "pred", "f32 f32")
            form(f"set.{c}{m}.u32.f32", "u32", "f32 f32")
            form(f"set.{c}{m}.f32.f32", "f32", "f32 f32")
        form(f"slct{m}.f32.f32", "f32", "f32 f32 f32")
        form(f"slct{m}.u32.f32", "u32", "u32 u32 f32")
    form("tanh.approx.f32", "f32", "f32")
    for m in options(FTZ, ("", ".NaN"), ("", ".xorsign.abs")):
        form(f"min{m}.f32", "f32", "f32 f32")
        form(f"max{m}.f32", "f32", "f32 f32")
    form("copysign.f32", "f32", "f32 f32")
    form("copysign.f64", "f64", "f64 f64")
    for p in TESTP:
        form(f"testp.{p}.f32", "pred", "f32")
        form(f"testp.{p}.f64", "pred", "f64")

    for m in ROUND:
        for op in ("add", "sub", "mul", "div"):
            form(f"{op}{m}.f64", "f64", "f64 f64")
        form(f"fma{m}.f64", "f64", "f64 f64 f64")
        form(f"rcp{m}.f64", "f64", "f64")
        form(f"sqrt{m}.f64", "f64", "f64")
    for op in ("rcp.approx.ftz", "rsqrt.approx.ftz", "rsqrt.approx", "neg", "abs"):
        form(f"{op}.f64", "f64", "f64")
    for op in ("min", "max"):
        form(f"{op}.f64", "f64", "f64 f64")
    for c in FLOAT_COMPARE:
        form(f"setp.{c}.f64", "pred", "f64 f64")


def halves():
    for t in ("f16", "f16x2"):
        for m in options(("", ".rn"), FTZ, SAT):
            for op in ("add", "sub", "mul"):
                form(f"{op}{m}.{t}", t, (t, t))
        for m in options((".rn",), FTZ, ("", ".sat", ".relu")):
            form(f"fma{m}.{t}", t, (t, t, t))
        for op in ("neg", "abs"):
            for m in FTZ:
                form(f"{op}{m}.{t}", t, (t,))
        for m in options(FTZ, ("", ".NaN"), ("", ".xorsign.abs")):
            for op in ("min", "max"):
                form(f"{op}{m}.{t}", t, (t, t))
        form(f"tanh.approx.{t}", t, (t,))
        form(f"ex2.approx.{t}", t, (t,))
        for m in ("", ".relu"):
            form(f"fma.rn.oob{m}.{t}", t, (t, t, t))
    for t in ("bf16", "bf16x2"):
        for op in ("add", "sub", "mul"):
            for m in ("", ".rn"):
                form(f"{op}{m}.{t}", t, (t, t))
        for m in ("", ".relu"):
            form(f"fma.rn{m}.{t}", t, (t, t, t))
            form(f"fma.rn.oob{m}.{t}", t, (t, t, t))
        for op in ("neg", "abs"):
            form(f"{op}.{t}", t, (t,))
        for m in options(("", ".NaN"), ("", ".xorsign.abs")):
            for op in ("min", "max"):
                form(f"{op}{m}.{t}", t, (t, t))
        form(f"tanh.approx.{t}", t, (t,))
        form(f"ex2.approx.ftz.{t}", t, (t,))
    for c in FLOAT_COMPARE:
        for m in FTZ:
            form(f"setp.{c}{m}.f16", "pred", "f16 f16")
            form(f"set.{c}{m}.f16x2.f16x2", "f16x2", "f16x2 f16x2")
            form(f"set.{c}{m}.u32.f16", "u32", "f16 f16")
        form(f"setp.{c}.bf16", "pred", "bf16 bf16")
        form(f"set.{c}.bf16x2.bf16x2", "bf16x2", "bf16x2 bf16x2")


SCALARS = "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64".split()
INTEGERS = SCALARS[:8]
PRECISION = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def cvt_modifiers(to, src):
    """Every spelling that may be legal; the assembler drops those that are not."""
    to_int, from_int = to in INTEGERS, src in INTEGERS
    if to_int and from_int:
        return ["", ".sat"]
    ftz = FTZ if "f32" in (to, src) else ("",)
    if to_int:
        return options((".rni", ".rzi", ".rmi", ".rpi"), ftz, SAT)
    if from_int:
        return options(ROUND, ("",), SAT)
    if to == src:
        return options((".rni", ".rzi", ".rmi", ".rpi"), ftz, SAT) + options(("",), ftz, SAT)
    if PRECISION[to] < PRECISION[src] or "bf16" in (to, src):
        return options(ROUND + ("",), ftz, SAT, ("", ".relu"), ("", ".satfinite"))
    return options(("",), ftz, SAT)


def conversions():
    for to, src in product(SCALARS, SCALARS):
        for m in cvt_modifiers(to, src):
            form(f"cvt{m}.{to}.{src}", to, (src,))
    for m in options((".rna", ".rn", ".rz"), ("", ".relu"), ("", ".satfinite")):
        form(f"cvt{m}.tf32.f32", "tf32", "f32")
    for t in ("f16x2", "bf16x2"):
        for m in options((".rn", ".rz"), ("", ".relu"), ("", ".satfinite")):
            form(f"cvt{m}.{t}.f32", t, "f32 f32")
    for t in ("e4m3x2", "e5m2x2"):
        for m in ("", ".relu"):
            form(f"cvt.rn.satfinite{m}.{t}.f32", t, "f32 f32")
            form(f"cvt.rn.satfinite{m}.{t}.f16x2", t, "f16x2")
            form(f"cvt.rn{m}.f16x2.{t}", "f16x2", (t,))
    for t in ("u16", "s16"):
        form(f"cvt.pack.sat.{t}.s32", "b32", "s32 s32")
    for t in ("u8", "s8", "u4", "s4", "u2", "s2"):
        form(f"cvt.pack.sat.{t}.s32.b32", "b32", "s32 s32 b32")


def integers():
    for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
        w = t[1:]
        for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"):
            form(f"{op}.{t}", t, (t, t))
        for op in ("mad.lo", "mad.hi", "sad"):
            form(f"{op}.{t}", t, (t, t, t))
        if w != "64":
            wide = t[0] + str(2 * int(w))
            form(f"mul.wide.{t}", wide, (t, t))
            form(f"mad.wide.{t}", wide, (t, t, wide))
        if t[0] == "s":
            form(f"abs.{t}", t, (t,))
            form(f"neg.{t}", t, (t,))
        for c in "eq ne lt le gt ge lo ls hi hs".split():
            form(f"setp.{c}.{t}", "pred", (t, t))
        form(f"shr.{t}", t, (t, "pos"))
        form(f"slct.{t}.s32", t, (t, t, "s32"))
        if w != "16":
            form(f"bfe.{t}", t, (t, "pos", "pos"))
            form(f"bfind.{t}", "u32", (t,))
            form(f"bfind.shiftamt.{t}", "u32", (t,))
    for t in ("u16x2", "s16x2"):
        form(f"add.{t}", t, (t, t))
        form(f"min.{t}", t, (t, t))
        form(f"max.{t}", t, (t, t))
    for op in ("min", "max"):
        form(f"{op}.relu.s16x2", "s16x2", "s16x2 s16x2")
        form(f"{op}.relu.s32", "s32", "s32 s32")
    for op in ("add.sat", "sub.sat"):
        form(f"{op}.s32", "s32", "s32 s32")
    form("mad.hi.sat.s32", "s32", "s32 s32 s32")
    for t, part in product(("u32", "s32"), ("lo", "hi")):
        form(f"mul24.{part}.{t}", t, (t, t))
        form(f"mad24.{part}.{t}", t, (t, t, t))
    form("mad24.hi.sat.s32", "s32", "s32 s32 s32")
    for w in ("16", "32", "64"):
        t = "b" + w
        for op in ("and", "or", "xor"):
            form(f"{op}.{t}", t, (t, t))
        form(f"not.{t}", t, (t,))
        form(f"cnot.{t}", t, (t,))
        form(f"shl.{t}", t, (t, "pos"))
        if w != "16":
            form(f"popc.{t}", "u32", (t,))
            form(f"clz.{t}", "u32", (t,))
            form(f"brev.{t}", t, (t,))
            form(f"bfi.{t}.p0l5", t, (t, t, "pos"), f"bfi.{t} %d, %a, %b, %c, 5;")
            form(f"bfi.{t}.p3", t, (t, t, "pos"), f"bfi.{t} %d, %a, %b, 3, %c;")
    form("fns.b32", "b32", "b32 pos pos", "fns.b32 %d, %a, %b, %c;")
    for mode, t in product((".wrap", ".clamp"), ("u32", "s32")):
        form(f"szext{mode}.{t}", t, (t, "pos"))
    for mode in (".wrap", ".clamp"):
        form(f"bmsk{mode}.b32", "b32", "pos pos")
        form(f"shf.l{mode}.b32", "b32", "b32 b32 pos")
        form(f"shf.r{mode}.b32", "b32", "b32 b32 pos")
    for a, b in product(("u32", "s32"), ("u32", "s32")):
        d = "s32" if "s32" in (a, b) else "u32"
        form(f"dp4a.{a}.{b}", d, (a, b, d))
        form(f"dp2a.lo.{a}.{b}", d, (a, b, d))
        form(f"dp2a.hi.{a}.{b}", d, (a, b, d))
    form("prmt.b32", "b32", "b32 b32 b32")
    for mode in "f4e b4e rc8 ecl ecr rc16".split():
        form(f"prmt.b32.{mode}", "b32", "b32 b32 b32")
    for table in (0x00, 0x01, 0x17, 0x1E, 0x3C, 0x5A, 0x80, 0x96, 0xC0, 0xCA, 0xE8, 0xF8, 0xFE, 0xFF):
        form(f"lop3.b32.0x{table:02x}", "b32", "b32 b32 b32", f"lop3.b32 %d, %a, %b, %c, 0x{table:02x};")
    carry()
    video()


def carry():
    """The carry flag, seen through the instruction that consumes it."""
    for w in ("32", "64"):
        u = "u" + w
        ops = (u, u, u)
        form(f"add.cc.{u}+addc.{u}", u, ops, f"add.cc.{u} %d, %a, %b; addc.{u} %d, %c, %d;")
        form(f"add.cc.{u}+addc.cc.{u}+addc.{u}", u, ops,
             f"add.cc.{u} %d, %a, %b; addc.cc.{u} %d, %c, %d; addc.{u} %d, 0, 0;")
        form(f"sub.cc.{u}+subc.{u}", u, ops, f"sub.cc.{u} %d, %a, %b; subc.{u} %d, %c, %d;")
        form(f"sub.cc.{u}+subc.cc.{u}+subc.{u}", u, ops,
             f"sub.cc.{u} %d, %a, %b; subc.cc.{u} %d, %c, %d; subc.{u} %d, 0, 0;")
        for part in ("lo", "hi"):
            form(f"mad.{part}.cc.{u}+addc.{u}", u, ops, f"mad.{part}.cc.{u} %d, %a, %b, %c; addc.{u} %d, %d, 0;")
            form(f"mad.{part}.cc.{u}+madc.{part}.{u}", u, ops,
                 f"mad.{part}.cc.{u} %d, %a, %b, %c; madc.{part}.{u} %d, %a, %d, %c;")


def video():
    signs = list(product(("u32", "s32"), repeat=3))
    for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        for d, a, b in signs:
            for sat in SAT:
                form(f"{op}.{d}.{a}.{b}{sat}", d, (a, b))
            form(f"{op}.{d}.{a}.{b}.sat.h1b2+add", d, (a, b, d),
                 f"{op}.{d}.{a}.{b}.sat.add %d, %a.h1, %b.b2, %c;")
            form(f"{op}.{d}.{a}.{b}.b3h0+max", d, (a, b, d), f"{op}.{d}.{a}.{b}.max %d, %a.b3, %b.h0, %c;")
            form(f"{op}.{d}.{a}.{b}.sat.b1h1+merge.b2", d, (a, b, "u32"),
                 f"{op}.{d}.{a}.{b}.sat %d.b2, %a.b1, %b.h1, %c;")
            form(f"{op}.{d}.{a}.{b}.b1h1+merge.h1", d, (a, b, "u32"),
                 f"{op}.{d}.{a}.{b} %d.h1, %a.b1, %b.h1, %c;")
    for op, d, a, mode in product(("vshl", "vshr"), ("u32", "s32"), ("u32", "s32"), (".clamp", ".wrap")):
        for sat in SAT:
            form(f"{op}.{d}.{a}.u32{sat}{mode}", d, (a, "pos"), f"{op}.{d}.{a}.u32{sat}{mode} %d, %a, %b;")
        form(f"{op}.{d}.{a}.u32.sat{mode}.h1b0+min", d, (a, "pos", d),
             f"{op}.{d}.{a}.u32.sat{mode}.min %d, %a.h1, %b.b0, %c;")
    for c, a, b in product("eq ne lt le gt ge".split(), ("u32", "s32"), ("u32", "s32")):
        form(f"vset.{a}.{b}.{c}", "u32", (a, b))
        form(f"vset.{a}.{b}.{c}.b1h1+add", "u32", (a, b, "u32"), f"vset.{a}.{b}.{c}.add %d, %a.b1, %b.h1, %c;")
    for d, a, b in signs:
        for m in options(SAT, ("", ".shr7", ".shr15")):
            form(f"vmad.{d}.{a}.{b}{m}", d, (a, b, d))
            form(f"vmad.{d}.{a}.{b}{m}.h1b2", d, (a, b, d), f"vmad.{d}.{a}.{b}{m} %d, %a.h1, %b.b2, %c;")
            form(f"vmad.{d}.{a}.{b}.po{m}", d, (a, b, d))
            form(f"vmad.{d}.{a}.{b}{m}.nc", d, (a, b, d), f"vmad.{d}.{a}.{b}{m} %d, %a, %b, -%c;")
            form(f"vmad.{d}.{a}.{b}{m}.na", d, (a, b, d), f"vmad.{d}.{a}.{b}{m} %d, -%a, %b, %c;")
    for n, (d, a, b) in product(("2", "4"), signs):
        for op in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
            for m in ("", ".sat", ".add"):
                form(f"{op}{n}.{d}.{a}.{b}{m}", d, (a, b, "u32"))
            mask = ".h1" if n == "2" else ".b30"
            form(f"{op}{n}.{d}.{a}.{b}.sat{mask}", d, (a, b, "u32"),
                 f"{op}{n}.{d}.{a}.{b}.sat %d{mask}, %a, %b, %c;")
    for n, a, b, c in product(("2", "4"), ("u32", "s32"), ("u32", "s32"), "eq ne lt le gt ge".split()):
        form(f"vset{n}.{a}.{b}.{c}", "u32", (a, b, "u32"))
        form(f"vset{n}.{a}.{b}.{c}.add", "u32", (a, b, "u32"))


def atomics():
    """%m is a global slot of the thread's own, %s a shared one: what memory holds after the update."""
    def update(op, kind, operands):
        w = WIDTH[kind]
        for space, at in (("global", "%m"), ("shared", "%s")):
            rest = ", ".join(["%b", "%c"][: len(operands) - 1])
            form(f"atom.{space}.{op}", kind, operands,
                 f"st.{space}.b{w} [{at}], %a; atom.{space}.{op} %d, [{at}], {rest}; ld.{space}.b{w} %d, [{at}];")
            if not op.startswith(("cas", "exch")):
                form(f"red.{space}.{op}", kind, operands,
                     f"st.{space}.b{w} [{at}], %a; red.{space}.{op} [{at}], {rest}; ld.{space}.b{w} %d, [{at}];")

    for op, kind in (("add.f32", "f32"), ("add.f64", "f64"), ("add.noftz.f16", "f16"), ("add.noftz.f16x2", "f16x2"),
                     ("add.noftz.bf16", "bf16"), ("add.noftz.bf16x2", "bf16x2")):
        update(op, kind, (kind, kind))
    for t in ("u32", "s32", "u64", "s64"):
        for op in ("add", "min", "max"):
            update(f"{op}.{t}", t, (t, t))
    for op in ("inc", "dec"):
        update(f"{op}.u32", "u32", ("u32", "u32"))
    for w in ("32", "64"):
        for op in ("and", "or", "xor", "exch"):
            update(f"{op}.b{w}", "b" + w, ("b" + w,) * 2)
        update(f"cas.b{w}", "b" + w, ("b" + w,) * 3)


def warps():
    """Instructions across the lanes: tuple i is lane i % 32 of a full warp."""
    for mode in ("up", "down", "bfly", "idx"):
        form(f"shfl.sync.{mode}.b32", "b32", "b32 pos pos", f"shfl.sync.{mode}.b32 %d, %a, %b, %c, -1;")
        form(f"shfl.sync.{mode}.b32|p", "b32", "b32 pos pos",
             f"shfl.sync.{mode}.b32 %t|%dp, %a, %b, %c, -1; selp.b32 %d, 1, 0, %dp;")
    for op in ("all", "any", "uni"):
        form(f"vote.sync.{op}.pred", "b32", "b32",
             f"setp.lt.s32 %p0, %a, 0; vote.sync.{op}.pred %dp, %p0, -1; selp.b32 %d, 1, 0, %dp;")
    form("vote.sync.ballot.b32", "b32", "b32", "setp.lt.s32 %p0, %a, 0; vote.sync.ballot.b32 %d, %p0, -1;")
    form("match.any.sync.b32", "b32", "b32", "and.b32 %t, %a, 3; match.any.sync.b32 %d, %t, -1;")
    form("match.all.sync.b32", "b32", "b32", "shr.u32 %t, %a, 31; match.all.sync.b32 %d|%dp, %t, -1;")
    for op in ("add", "min", "max"):
        for t in ("u32", "s32"):
            form(f"redux.sync.{op}.{t}", t, (t,), f"redux.sync.{op}.{t} %d, %a, -1;")
    for op in ("and", "or", "xor"):
        form(f"redux.sync.{op}.b32", "b32", "b32", f"redux.sync.{op}.b32 %d, %a, -1;")


floats()
halves()
conversions()
integers()
atomics()
warps()
assert len({f.name for f in FORMS}) == len(FORMS), "a form is listed twice"
