"""The Python part of the worker, without a device: numbers, what the subject's text shows, what it must not open."""
import os
import sys
import tempfile
import unittest

import support  # noqa: F401  (finds the package)
from assay.worker import subject, tensors, watch
from assay.worker.library import CALLS_REFERENCE, ENVIRONMENT_PROBE, FORBIDDEN_CALL, TAMPERING


class FakeLibrary:
    """Collects what would be reported."""

    def __init__(self):
        self.reports = []

    def report(self, kind, text, file="", line=0, error=True):
        if os.path.basename(file) == "watched_answer.py":  # this test is a file of the user's as well
            self.reports.append((kind, text, os.path.basename(file), line, error))


class Numbers(unittest.TestCase):
    def test_bits_become_python_numbers(self):
        cases = [(0x3F800000, "f32", 1.0), (0x3C00, "f16", 1.0), (0x3F80, "bf16", 1.0), (0x3FF0000000000000, "f64", 1.0),
                 (0xFFFFFFFF, "i32", -1), (0xFFFFFFFF, "u32", 2**32 - 1), (2**64 - 1, "i64", -1), (1, "bool", True)]
        for bits, dtype, expected in cases:
            with self.subTest(dtype=dtype):
                found = tensors.number(bits, dtype)
                self.assertEqual(found, expected)
                self.assertIs(type(found), type(expected))


class Watching(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.library = FakeLibrary()

    def load(self, text):
        """Imports `text` as a subject, under a watch that hides reference.py."""
        folder = os.path.realpath(self.folder.name)
        for name, content in (("watched_answer.py", text), ("reference.py", "SECRET = 1\n")):
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)
        watching = watch.Watch(self.library, folder, [os.path.join(folder, "reference.py")])
        self.addCleanup(sys.modules.pop, "watched_answer", None)
        module = subject._import(os.path.join(folder, "watched_answer.py"))
        watching.read_code()
        watching.compare()
        return module

    def test_an_honest_answer_draws_nothing(self):
        self.load("import math\n\ndef run(x):\n    return math.sqrt(x)\n")
        self.assertEqual(self.library.reports, [])

    def test_a_replaced_timer(self):
        import time

        self.addCleanup(setattr, time, "perf_counter", time.perf_counter)
        self.load("import time\n\ntime.perf_counter = lambda: 0.0\n")
        self.assertEqual(self.library.reports,
                         [(TAMPERING, "the answer replaced `time.perf_counter`", "watched_answer.py", 3, True)])

    def test_the_reference_is_opened(self):
        self.load("import os\n\nopen(os.path.join(os.path.dirname(__file__), 'reference.py')).close()\n")
        self.assertEqual(self.library.reports, [
            (CALLS_REFERENCE, "the answer opens reference.py, a file of the problem", "watched_answer.py", 3, True)])

    def test_callers_and_the_checker_are_looked_at(self):
        self.load("import sys\n\ndef run(x):\n    if 'assay' in sys.modules:\n        return sys._getframe(1)\n")
        self.assertEqual([(report[0], report[3]) for report in self.library.reports],
                         [(ENVIRONMENT_PROBE, 4), (ENVIRONMENT_PROBE, 5)])

    def test_a_stream_that_is_never_joined(self):
        text = "def run(torch, x):\n    side = torch.cuda.Stream()\n    with torch.cuda.stream(side):\n        x @ x\n"
        self.load(text)
        self.assertEqual([(report[0], report[3]) for report in self.library.reports], [(FORBIDDEN_CALL, 2)])
        joined = FakeLibrary()
        self.library = joined
        self.load(text + "    torch.cuda.current_stream().wait_stream(side)\n")
        self.assertEqual(joined.reports, [])

    def test_a_file_that_is_imported_later_is_read_before_it_runs(self):
        folder = os.path.realpath(self.folder.name)
        with open(os.path.join(folder, "watched_answer.py"), "w") as file:
            file.write("import sys\nsys._getframe(0)\nraise RuntimeError('ran')\n")
        watch.Watch(self.library, folder, [])
        with self.assertRaises(RuntimeError):
            subject._import(os.path.join(folder, "watched_answer.py"))
        self.assertEqual([(report[0], report[3]) for report in self.library.reports], [(ENVIRONMENT_PROBE, 2)])

    def test_the_seed_is_a_warning(self):
        self.load("def run(torch):\n    return torch.initial_seed()\n")
        self.assertEqual([report[4] for report in self.library.reports], [False])


class Failures(unittest.TestCase):
    def test_what_the_virtual_gpu_cannot_do_is_not_the_subjects_fault(self):
        kind = type("Unsupported", (RuntimeError,), {"__module__": "assay.virtual.aten"})
        try:
            try:
                raise kind("no such thing")
            except RuntimeError as error:
                raise ValueError("wrapped") from error
        except ValueError as error:
            self.assertTrue(subject._is_unsupported(error))
        self.assertFalse(subject._is_unsupported(ValueError("its own")))


if __name__ == "__main__":
    unittest.main()
