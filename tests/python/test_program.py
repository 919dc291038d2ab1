"""The program from Python: `python -m assay`, and the paths of its parts."""

import os
import subprocess
import sys
import unittest
from unittest import mock

from support import LIBRARIES, PROGRAM, ROOT, needs_program
from assay import paths


class PathsTest(unittest.TestCase):
    @needs_program
    def test_parts(self):
        self.assertEqual(paths.program(), str(PROGRAM))
        self.assertEqual(
            os.path.realpath(paths.library("libcudart.so.13")),
            os.path.realpath(LIBRARIES / "libcudart.so.13"),
        )
        with self.assertRaisesRegex(FileNotFoundError, "libnothing.so is missing next to"):
            paths.library("libnothing.so")

    def test_a_program_that_is_not_there(self):
        with mock.patch.dict(os.environ, {"ASSAY_PROGRAM": "/no/such/program"}):
            with self.assertRaisesRegex(
                FileNotFoundError, "ASSAY_PROGRAM names /no/such/program, which is not a program"
            ):
                paths.program()

    def test_found_in_a_wheel_before_a_build_tree(self):
        with mock.patch.dict(os.environ), mock.patch.object(os, "access", lambda path, mode: True):
            os.environ.pop("ASSAY_PROGRAM")
            self.assertEqual(paths.program(), str(ROOT / "python" / "assay" / "_program" / "bin" / "assay"))

    def test_nothing_is_imported_with_the_package(self):
        listing = "import sys, assay; print([n for n in sys.modules if n.startswith(('assay.', 'torch'))])"
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        ended = subprocess.run(
            [sys.executable, "-c", listing], env=environment, stdout=subprocess.PIPE, universal_newlines=True
        )
        self.assertEqual(ended.stdout.strip(), "[]")


@needs_program
class MainTest(unittest.TestCase):
    def test_arguments_and_status_are_the_programs(self):
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
        run = [sys.executable, "-m", "assay"]
        version = subprocess.run(
            run + ["version"], env=environment, stdout=subprocess.PIPE, universal_newlines=True
        )
        self.assertRegex(version.stdout, r"^assay \d+\.\d+")
        wrong = subprocess.run(
            run + ["no-such-command"], env=environment, stderr=subprocess.PIPE, universal_newlines=True
        )
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("unknown command `no-such-command`", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
