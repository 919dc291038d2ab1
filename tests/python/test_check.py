"""`assay check` on Python functions, from the contract to the verdict."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from support import PROGRAM, needs_program, needs_triton

TWICE = '''
import ctypes

PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 px, .param .u64 py, .param .u32 n) {
  .reg .pred %p; .reg .f32 %f; .reg .b32 %r<5>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [px]; ld.param.u64 %d2, [py]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p, %r2, %r1;
  @%p ret;
  mul.wide.u32 %d3, %r2, 4;
  add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.f32 %f, [%d4]; add.f32 %f, %f, %f; st.global.f32 [%d5], %f;
  ret;
}
\\0"""
cudart = ctypes.CDLL("libcudart.so.13")


class Dim(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
assert cudart.cudaLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
assert cudart.cudaLibraryGetKernel(ctypes.byref(kernel), library, b"twice") == 0


def stream_of(x):
    if hasattr(x, "stream"):
        return x.stream
    import torch

    return torch.cuda.current_stream().cuda_stream


def run(x, y, n):
    values = [ctypes.c_uint64(x.data_ptr()), ctypes.c_uint64(y.data_ptr()), ctypes.c_uint32(n)]
    arguments = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
    grid, block = Dim((n + 127) // 128, 1, 1), Dim(128, 1, 1)
    status = cudart.cudaLaunchKernel(kernel, grid, block, arguments, ctypes.c_size_t(0), ctypes.c_void_p(stream_of(x)))
    assert status == 0, status
'''

TWICE_CONTRACT = '''
[kernel]
python = "answer.py:run"
args = ["x", "y", "N"]
returns = "void"
[dims]
N = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
'''

# Launches a second time, on a stream of its own; %s: what follows.
SIDE_STREAM = '''

side, event = ctypes.c_void_p(), ctypes.c_void_p()
assert cudart.cudaStreamCreateWithFlags(ctypes.byref(side), 1) == 0
assert cudart.cudaEventCreate(ctypes.byref(event)) == 0
scratch = ctypes.c_void_p()
assert cudart.cudaMalloc(ctypes.byref(scratch), ctypes.c_size_t(8 * 4096)) == 0
first = run


def run(x, y, n):
    first(x, y, n)
    cudart.cudaMemsetAsync(scratch, 0, ctypes.c_size_t(4 * 4096), side)
    values = [ctypes.c_uint64(scratch.value), ctypes.c_uint64(scratch.value + 4 * 4096), ctypes.c_uint32(n)]
    arguments = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
    cudart.cudaLaunchKernel(kernel, Dim((n + 127) // 128, 1, 1), Dim(128, 1, 1), arguments, ctypes.c_size_t(0), side)  # launched here
    %s
'''

ROW_SUMS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for k in range(0, columns, BLOCK):
        i = k + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    tl.store(y + row, tl.sum(total))


def run(x):
    y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
    row_sums[(x.shape[0],)](x, y, x.shape[1], BLOCK=256)
    return y
'''

ROW_SUMS_CONTRACT = '''
[kernel]
python = "answer.py:run"
args = ["x"]
[dims]
R = { min = 1, max = 64 }
N = { min = 1, max = 1024 }
[tensors.x]
dtype = "f32"
shape = ["R", "N"]
[tensors.y]
dtype = "f32"
shape = ["R"]
role = "out"
[reference]
torch = "reference.py:run"
[inputs]
torch = "inputs.py:make"
'''

REFERENCE = '''
def run(x):
    return x.sum(-1)
'''

INPUTS = '''
import torch


def make(dims, seed):
    return {"x": torch.rand(dims["R"], dims["N"], generator=torch.Generator().manual_seed(seed))}
'''


class Checking(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, answer, contract, *options):
        """The report of a check, and the command's result."""
        for name, text in (("answer.py", answer), ("contract.toml", contract), ("reference.py", REFERENCE),
                           ("inputs.py", INPUTS)):
            (self.folder / name).write_text(textwrap.dedent(text))
        environment = dict(os.environ, ASSAY_PYTHON=sys.executable, XDG_CACHE_HOME=str(self.folder / "cache"))
        result = subprocess.run(
            [str(PROGRAM), "check", "contract.toml", "--json", "report.json", "--seed", "1", *options],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=180)
        self.assertTrue((self.folder / "report.json").exists(), result.stderr)
        return json.loads((self.folder / "report.json").read_text()), result

    def kinds(self, report):
        return [finding["kind"] for finding in report["findings"] if finding["severity"] == "error"]


@needs_program
class WithoutTorch(Checking):
    """Functions that launch through ctypes."""

    def test_a_right_function_passes(self):
        report, result = self.check(TWICE, TWICE_CONTRACT, "--budget", "4")
        self.assertEqual(report["findings"], [], result.stdout)
        self.assertEqual(report["verdict"], "pass", result.stdout)

    def test_a_write_past_the_end_is_found(self):
        report, _ = self.check(TWICE.replace("@%p ret;", ""), TWICE_CONTRACT, "--budget", "2")
        self.assertEqual(self.kinds(report)[0], "out-of-bounds")

    def test_an_exception_is_a_crash_at_its_line(self):
        answer = TWICE.replace("def run(x, y, n):\n", "def run(x, y, n):\n    if n == 33:\n        raise ValueError('thirty-three')\n")
        report, _ = self.check(answer, TWICE_CONTRACT, "--budget", "4")
        finding = report["findings"][0]
        self.assertEqual((finding["kind"], finding["message"]), ("crash", "ValueError: thirty-three"))
        lines = answer.splitlines()
        self.assertEqual(lines[finding["where"]["line"] - 1].strip(), "raise ValueError('thirty-three')")

    def test_a_crash_inside_a_library_tells_the_line(self):
        answer = TWICE.replace("def run(x, y, n):\n", "def run(x, y, n):\n    ctypes.string_at(1)\n")
        report, _ = self.check(answer, TWICE_CONTRACT, "--budget", "2")
        finding = report["findings"][0]
        line = answer.splitlines().index("    ctypes.string_at(1)") + 1
        self.assertEqual(finding["kind"], "crash")
        self.assertIn("signal 11", finding["message"])
        self.assertRegex(finding["message"], r'answer\.py", line %d in run' % line)

    def test_a_function_without_a_launch_is_no_kernel(self):
        answer = '''
        import ctypes
        cudart = ctypes.CDLL("libcudart.so.13")

        def run(x, y, n):
            cudart.cudaMemset(ctypes.c_void_p(y.data_ptr()), 0, ctypes.c_size_t(4 * n))
        '''
        report, _ = self.check(answer, TWICE_CONTRACT.replace("2 * x[i]", "0 * x[i]") + "[require]\nnonfinite = \"ignore\"\n",
                               "--budget", "3")
        self.assertIn("no-kernel", self.kinds(report))

    def test_the_contract_cannot_be_read(self):
        report, _ = self.check("open(__file__.replace('answer.py', 'contract.toml')).read()\n" + TWICE, TWICE_CONTRACT,
                               "--budget", "2")
        self.assertEqual(report["verdict"], "fail")
        self.assertIn("calls-reference", self.kinds(report))

    def test_nothing_outside_can_be_written_and_no_socket_opened(self):
        answer = TWICE + textwrap.dedent('''
        import socket

        for attempt in (lambda: open(%r, "w"), lambda: socket.create_connection(("127.0.0.1", 9))):
            try:
                attempt()
            except PermissionError:
                continue
            raise RuntimeError("it was possible")
        ''') % str(self.folder / "outside")
        report, result = self.check(answer, TWICE_CONTRACT, "--budget", "2")
        self.assertEqual(self.kinds(report), [], result.stdout)
        self.assertFalse((self.folder / "outside").exists())

    def test_work_left_on_a_stream_of_its_own_is_a_forbidden_call(self):
        report, result = self.check(TWICE + SIDE_STREAM % "pass", TWICE_CONTRACT, "--budget", "3")
        finding = report["findings"][0]
        self.assertEqual(finding["kind"], "forbidden-call", result.stdout)
        self.assertIn("leaves the kernel twice on a side stream", finding["message"])
        self.assertIn("launched here", (TWICE + SIDE_STREAM).splitlines()[finding["where"]["line"] - 1])

    def test_work_on_a_stream_that_is_joined_is_allowed(self):
        for join in ("cudart.cudaEventRecord(event, side); cudart.cudaStreamWaitEvent(ctypes.c_void_p(stream_of(x)), event, 0)",
                     "cudart.cudaStreamSynchronize(side)", "cudart.cudaDeviceSynchronize()",
                     "cudart.cudaEventRecord(event, side); cudart.cudaEventSynchronize(event)"):
            with self.subTest(join=join):
                report, result = self.check(TWICE + SIDE_STREAM % join, TWICE_CONTRACT, "--budget", "2")
                self.assertEqual(self.kinds(report), [], result.stdout)

    def test_a_function_that_goes_by_the_date_is_found(self):
        for clock in ("time.time() > 1.9e9", "datetime.datetime.now().year > 2029"):
            with self.subTest(clock=clock):
                answer = TWICE.replace("import ctypes", "import ctypes, datetime, time", 1)
                answer = answer.replace("def run(x, y, n):\n", "def run(x, y, n):\n    n -= n > 8 and %s\n" % clock)
                report, result = self.check(answer, TWICE_CONTRACT, "--budget", "6")
                self.assertEqual(len(self.kinds(report)), 1, result.stdout)
                self.assertIn("correct at the present time, wrong when the clock shows", report["findings"][0]["message"])

    def test_host_memory_that_nothing_wrote_is_not_zero(self):
        answer = TWICE + """

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
plain = run


def run(x, y, n):
    memory = libc.malloc(ctypes.c_size_t(1 << 20))  # new pages, which are zeros
    first = ctypes.cast(memory, ctypes.POINTER(ctypes.c_uint))[600]
    libc.free(ctypes.c_void_p(memory))
    plain(x, y, n if first == 0 else n // 2)
"""
        report, result = self.check(answer, TWICE_CONTRACT, "--budget", "4")
        self.assertEqual(len(self.kinds(report)), 1, result.stdout)
        self.assertEqual(report["findings"][0]["evidence"]["trial"]["condition"]["host_poison"], True)

    def test_a_finding_can_be_replayed(self):
        self.check(TWICE.replace("add.f32 %f, %f, %f", "mul.f32 %f, %f, %f"), TWICE_CONTRACT, "--budget", "2")
        environment = dict(os.environ, ASSAY_PYTHON=sys.executable, XDG_CACHE_HOME=str(self.folder / "cache"))
        replayed = subprocess.run([str(PROGRAM), "replay", "report.json"], cwd=self.folder, env=environment,
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(replayed.returncode, 1, replayed.stdout + replayed.stderr)
        self.assertIn("wrong-result", replayed.stdout)


@needs_program
@needs_triton
class Triton(Checking):
    """Functions that return tensors, against a reference in PyTorch."""

    def test_a_right_kernel_passes(self):
        report, result = self.check(ROW_SUMS, ROW_SUMS_CONTRACT, "--budget", "30")
        self.assertEqual(self.kinds(report), [], result.stdout)
        self.assertEqual(report["verdict"], "pass", result.stdout)
        self.assertTrue(report["coverage"]["budget_rests_on"])

    def test_a_forgotten_mask_is_found_at_its_line(self):
        answer = ROW_SUMS.replace(", mask=i < columns, other=0.0", "")
        report, result = self.check(answer, ROW_SUMS_CONTRACT, "--budget", "8")
        finding = report["findings"][0]
        self.assertEqual(finding["kind"], "out-of-bounds", result.stdout)
        self.assertIn("tl.load", answer.splitlines()[finding["where"]["line"] - 1])

    def test_a_wrong_shape_is_a_wrong_result(self):
        report, _ = self.check(ROW_SUMS.replace("return y", "return y[None]"), ROW_SUMS_CONTRACT, "--budget", "4")
        finding = report["findings"][0]
        self.assertEqual(finding["kind"], "wrong-result")
        self.assertRegex(finding["message"], r"run returned the shape \[1, \d+\] for `y`, which has \[\d+\]")

    def test_a_buffer_that_is_returned_again_is_aliased(self):
        answer = ROW_SUMS.replace("    y = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)\n",
                                  "    y = kept.setdefault(x.shape[0], torch.empty(x.shape[0], device=x.device))\n")
        report, _ = self.check("kept = {}\n" + answer, ROW_SUMS_CONTRACT, "--budget", "8")
        self.assertEqual(self.kinds(report)[0], "aliased-output")

    def test_operators_left_on_a_stream_are_found_beside_ones_that_are_joined(self):
        answer = ROW_SUMS.replace("    return y\n", """\
    joined, left = streams
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(joined):
        x + 1
    %s.wait_stream(joined)
    with torch.cuda.stream(left):
        x + 2
    return y
""")
        made = answer.replace("def run(x):", "streams = torch.cuda.Stream(), torch.cuda.Stream()\n\n\ndef run(x):")
        report, result = self.check(made % "torch.cuda.current_stream()", ROW_SUMS_CONTRACT, "--budget", "4")
        self.assertEqual(self.kinds(report), ["forbidden-call"], result.stdout)
        self.assertIn("leaves work on a side stream", report["findings"][0]["message"])
        left_too = made.replace("        x + 2\n", "        x + 2\n    torch.cuda.current_stream().wait_stream(left)\n")
        report, result = self.check(left_too % "left", ROW_SUMS_CONTRACT, "--budget", "4")
        self.assertEqual(self.kinds(report), [], result.stdout)

    def test_torch_alone_is_no_kernel(self):
        report, _ = self.check("def run(x):\n    return x.sum(-1)\n", ROW_SUMS_CONTRACT, "--budget", "8")
        self.assertEqual(self.kinds(report), ["no-kernel"])


if __name__ == "__main__":
    unittest.main()
