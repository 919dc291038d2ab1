"""Triton and torch.compile on the virtual GPU: the programs in tests/python/programs."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from support import LIBRARIES, PROGRAM, ROOT, needs_program, needs_triton

from assay.virtual import triton as virtual

PROGRAMS = ROOT / "tests/python/programs"


def run(program: str, *arguments: str) -> "tuple[subprocess.CompletedProcess, dict]":
    """Runs a program of the folder on the virtual GPU; its output and the report."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [PROGRAM, "run", "--json", report, "--", sys.executable, PROGRAMS / program, *arguments]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        with open(report) as file:
            return ended, json.load(file)


def findings_of(program: str, *arguments: str) -> "list[dict]":
    """Runs a program on the virtual GPU so that a fault does not end it; its findings."""
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events")
        environment = dict(
            os.environ, ASSAY_CHECK="all", ASSAY_REPORT=events, PYTORCH_NO_CUDA_MEMORY_CACHING="1",
            LD_PRELOAD="%s/libcudart.so.13:%s/libcuda.so.1" % (LIBRARIES, LIBRARIES), LD_LIBRARY_PATH=str(LIBRARIES),
            PYTHONPATH="%s/python/assay/site:%s/python" % (ROOT, ROOT), TRITON_CACHE_DIR=os.path.join(folder, "triton"))
        ended = subprocess.run([sys.executable, PROGRAMS / program, *arguments], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout)
        with open(events) as file:
            return [event["finding"] for event in map(json.loads, file) if event["event"] == "finding"]


def marked(program: str, pattern: str) -> "set[tuple[str, int]]":
    """The lines of a program that end with a comment, and the comments."""
    with open(PROGRAMS / program) as file:
        found = [(re.search(r"# (%s)$" % pattern, line), number) for number, line in enumerate(file, 1)]
    return {(match.group(1), number) for match, number in found if match}


def placed(findings: "list[dict]") -> "set[tuple[str, int]]":
    """The kinds and lines of the errors among findings."""
    return {(f["kind"], f["where"]["line"]) for f in findings if f["severity"] == "error"}


class PreparedCode(unittest.TestCase):
    PTX = "\n".join([
        ".visible .entry k(", "\t.param .u64 k_param_0", ")", "{", "\t.loc\t1 7 4", "\t// begin inline asm",
        "\t.loc\t1 8 4", "\tmov.u32 %r1, 0x0;", "\t// end inline asm", "\t.loc\t1 9 4", "\tret;", "}", ""])

    def test_lines_inside_assembly_are_left_out(self):
        lines = re.findall(r"\.loc\t1 (\d+)", virtual.prepare_ptx(self.PTX, "k", "k"))
        self.assertEqual(lines, ["7", "9"])

    def test_the_kernel_gets_its_new_name_and_its_parameters_keep_theirs(self):
        ptx = virtual.prepare_ptx(self.PTX, "k", "k__BLOCK_64")
        self.assertIn(".entry k__BLOCK_64(", ptx)
        self.assertIn(" k_param_0", ptx)

    def test_the_race_check_is_told_that_threads_hold_copies(self):
        self.assertIn('{\n\t.pragma "%s";\n' % virtual.THREADS_HOLD_COPIES, virtual.prepare_ptx(self.PTX, "k", "k"))


class Launcher(unittest.TestCase):
    def test_without_a_compiler_the_error_says_what_to_install(self):
        with mock.patch.dict(os.environ, {"PATH": ""}), self.assertRaisesRegex(RuntimeError, "install gcc, or name one in CC"):
            os.environ.pop("CC", None)
            virtual.build_launcher("driver", "driver.c", "folder", [], [], [])

    def test_the_compiler_does_not_run_on_the_virtual_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = os.path.join(folder, "seen")
            compiler = os.path.join(folder, "cc")
            with open(compiler, "w") as file:
                file.write("#!/bin/sh\necho \"preload=$LD_PRELOAD\" > %s\n" % seen)
            os.chmod(compiler, 0o755)
            with mock.patch.dict(os.environ, {"CC": compiler, "LD_PRELOAD": ""}), \
                    mock.patch("os.path.exists", return_value=True):
                os.environ["LD_PRELOAD"] = "libnothing.so"
                virtual.build_launcher("driver", "driver.c", folder, [], [], [])
            with open(seen) as file:
                self.assertEqual(file.read(), "preload=\n")


@needs_triton
@needs_program
class Kernels(unittest.TestCase):
    KINDS = "out-of-bounds|uninitialized|data-race"

    def test_wrong_kernels_are_found_at_their_lines(self):
        findings = findings_of("triton_kernels.py", "wrong")
        self.assertEqual(placed(findings), marked("triton_kernels.py", self.KINDS))

    def test_right_kernels_pass(self):
        ended, report = run("triton_kernels.py", "right")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(placed(report["findings"]), set())

    def test_a_finding_names_the_configuration(self):
        ended, _ = run("triton_kernels.py", "wrong", "one_configuration_of_several")
        self.assertIn("tuned_kernel__BLOCK_512", ended.stderr)

    def test_a_tensor_without_a_variable_has_the_name_of_the_argument(self):
        ended, _ = run("triton_kernels.py", "wrong", "load_without_mask")
        self.assertIn("`x_ptr`", ended.stderr)

    def test_features(self):
        ended, report = run("triton_features.py")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(placed(report["findings"]), set())
        with open(PROGRAMS / "triton_features.py") as file:
            expected = re.findall(r"(?m)^@feature\ndef (\w+)", file.read())
        self.assertEqual(re.findall(r"(?m)^right: (\w+)", ended.stdout), expected)
        self.assertIn("value: 42", ended.stdout)
        self.assertIn("every run changes `y_ptr` further", ended.stderr)

    def test_a_failed_assertion_is_reported_at_its_line(self):
        ended, _ = run("triton_faults.py", "assertion")
        (_, line), = marked("triton_faults.py", "assertion")
        self.assertRegex(ended.stderr, r"triton_faults\.py:%d, .*assertion `too large` failed" % line)

    def test_an_instruction_that_is_not_supported_is_named_with_its_line(self):
        ended, _ = run("triton_faults.py", "instruction")
        (_, line), = marked("triton_faults.py", "instruction")
        self.assertRegex(ended.stderr, r"triton_faults\.py:%d: not supported: `wgmma\.fence" % line)
        self.assertIn("Unsupported: the virtual GPU cannot run the Triton kernel `instruction_kernel`", ended.stderr)


@needs_triton
@needs_program
class Compiled(unittest.TestCase):
    def test_compiled_functions_are_right_and_pass(self):
        ended, report = run("compiled.py")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(placed(report["findings"]), set())
        self.assertEqual(len(re.findall(r"(?m)^right: ", ended.stdout)), 4)


if __name__ == "__main__":
    unittest.main()
