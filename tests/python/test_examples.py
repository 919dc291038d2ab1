"""The worked examples of docs/python.md: what is right passes, and each wrong variant fails with its kind of
finding."""

import contextlib
import importlib
import os
import subprocess
import sys
import unittest

from support import PROGRAM, ROOT, needs_nvcc, needs_program, needs_pytest, needs_torch_cuda, needs_triton
import assay

EXAMPLES = ROOT / "examples" / "python"
BUDGET = 4.0  # seconds of trials


@contextlib.contextmanager
def importable(folder):
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def example(name):
    with importable(EXAMPLES):
        return importlib.import_module(name)


def kinds(report):
    return [finding.kind for finding in report.findings]


@needs_program
class ExamplesTest(unittest.TestCase):
    def assert_no_error(self, report):
        self.assertEqual(report.findings, [], str(report))

    def assert_finds(self, report, kind, file=None):
        self.assertEqual(report.verdict, "fail", str(report))
        self.assertIn(kind, kinds(report), str(report))
        if file:
            self.assertEqual(os.path.basename(report.findings[0].where.file), file, str(report))

    @needs_triton
    def test_triton_softmax(self):
        module = example("softmax")
        self.assert_no_error(module.check(module.softmax, BUDGET))
        self.assert_finds(module.check(module.unmasked_softmax, BUDGET), "out-of-bounds", "softmax.py")

    @needs_torch_cuda
    @needs_nvcc
    def test_load_inline_layer_norm(self):
        module = example("layer_norm")
        self.assert_no_error(module.check(module.layer_norm, BUDGET))
        self.assert_finds(module.check(module.racing_layer_norm, BUDGET), "data-race")

    @needs_torch_cuda
    @needs_nvcc
    def test_kernelbench_answer(self):
        folder = EXAMPLES / "kernelbench"
        self.assert_no_error(
            assay.check(folder / "answer.py", problem=folder / "problem.py", budget=BUDGET)
        )
        report = assay.reward(folder / "problem.py", (folder / "wrong.py").read_text(), budget=BUDGET)
        self.assert_finds(report, "low-precision-accumulation")

    @needs_triton
    def test_sol_solution(self):
        folder = EXAMPLES / "sol"
        self.assert_no_error(assay.check(folder / "solution.json", problem=folder, budget=BUDGET))
        self.assert_finds(
            assay.check(folder / "wrong.json", problem=folder, budget=BUDGET), "out-of-bounds", "main.py"
        )

    @needs_triton
    @needs_pytest
    def test_pytest_suite(self):
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), ASSAY_PROGRAM=str(PROGRAM))
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "assay.pytest_plugin",
                "-p",
                "no:cacheprovider",
                "--assay",
                "-k",
                "against_torch",
                str(ROOT / "examples" / "python-project"),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("3 passed", ended.stdout)


if __name__ == "__main__":
    unittest.main()
