"""From forms to machine code: one kernel a form, a few hundred kernels a module."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from forms import WIDTH

HEADER = """.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 scratch[2048];
"""


def bits(kind):
    return WIDTH[kind]


def kernel(index, form):
    """out[i] = form(a[i], b[i], c[i]); one line of text holds the instruction under test."""
    names = "abc"[: len(form.operands)]
    params = ", ".join(f".param .u64 p{n}" for n in "d" + names)
    lines = [
        f".visible .entry k{index}({params}, .param .u32 count) {{",
        " .reg .pred %p0, %dp; .reg .b32 %i, %n, %t; .reg .b64 %at, %off;",
        " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;",
        " ld.param.u32 %n, [count]; setp.ge.u32 %p0, %i, %n; @%p0 bra done;",
    ]
    for name, kind in zip(names, form.operands):
        w = bits(kind)
        lines.append(
            f" .reg .b{w} %{name}; ld.param.u64 %at, [p{name}]; mul.wide.u32 %off, %i, {w // 8};"
            f" add.u64 %at, %at, %off; ld.global.b{w} %{name}, [%at];")
    w = bits(form.result)
    lines.append(f" .reg .b{w} %d;")
    if "[%m]" in form.text:
        lines.append(f" .reg .b64 %m; ld.param.u64 %at, [pd]; mul.wide.u32 %off, %i, {w // 8}; add.u64 %m, %at, %off;")
    if "[%s]" in form.text:
        lines.append(" .reg .b32 %s; mov.u32 %s, scratch; mad.lo.u32 %s, %t, 8, %s;")
    if form.result == "pred":
        lines.append(" " + form.text.replace("%d", "%dp"))
        lines.append(" selp.b32 %d, 1, 0, %dp;")
    else:
        lines.append(" " + form.text)
    lines.append(f" ld.param.u64 %at, [pd]; mul.wide.u32 %off, %i, {w // 8}; add.u64 %at, %at, %off;"
                 f" st.global.b{w} [%at], %d;")
    lines.append("done: ret; }")
    return lines


def module(forms):
    """The text, and for each of its lines the index of the form it belongs to."""
    lines = HEADER.splitlines()
    owner = [None] * len(lines)
    for i, form in enumerate(forms):
        body = kernel(i, form)
        lines += body
        owner += [i] * len(body)
    return "\n".join(lines) + "\n", owner


def assemble(text, path, ptxas, arch="sm_90"):
    with open(path + ".ptx", "w") as f:
        f.write(text)
    done = subprocess.run([ptxas, f"-arch={arch}", path + ".ptx", "-o", path + ".cubin"], capture_output=True, text=True)
    return done.returncode, done.stderr + done.stdout


def build(forms, folder, ptxas="ptxas", chunk=160, jobs=None):
    """Assembles everything; forms that the assembler refuses are left out and returned."""
    os.makedirs(folder, exist_ok=True)
    chunks = [forms[i:i + chunk] for i in range(0, len(forms), chunk)]

    def one(item):
        number, members = item
        refused = []
        path = os.path.join(folder, f"m{number}")
        while members:
            text, owner = module(members)
            code, output = assemble(text, path, ptxas)
            if code == 0:
                return members, refused, path + ".cubin"
            bad = {owner[int(n) - 1] for n in re.findall(r"line (\d+)", output) if int(n) <= len(owner)}
            bad.discard(None)
            if not bad:
                raise RuntimeError(f"{path}: {output[:2000]}")
            refused += [members[i] for i in sorted(bad)]
            members = [m for i, m in enumerate(members) if i not in bad]
        return members, refused, None

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        built = list(pool.map(one, enumerate(chunks)))
    modules = [(members, cubin) for members, _, cubin in built if members]
    refused = [r for _, rs, _ in built for r in rs]
    return modules, refused
