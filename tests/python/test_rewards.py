"""assay.reward: verdicts as data, whatever the answer is."""

import os
import pathlib
import stat
import tempfile
import time
import unittest
from unittest import mock

import support  # noqa: F401: finds the package
import assay
from assay import program, rewards
from assay.rewards import _suffix

# Says pass for an answer that contains "right", refuses one that contains "refused", hangs for "endless", and computes
# for a second, in a process that it starts, for "costly".
PROGRAM = """#!/bin/sh
for last; do :; done
if grep -q endless "$2"; then sleep 60; fi
if grep -q costly "$2"; then
  "$ASSAY_PYTHON" -S -c 'import time
while time.process_time() < 1: pass'
fi
if grep -q refused "$2"; then echo "assay: the language is unknown" >&2; exit 2; fi
if grep -q lacking "$2"; then echo "assay: the answer defines no class ModelNew" >&2; exit 2; fi
if grep -q right "$2"; then verdict=pass; else verdict=fail; fi
sleep 0.3
name=$(realpath --relative-to=. "$2")
printf '{"verdict": "%s", "findings": [], "title": "%s"}' $verdict "$name $4" > "$last"
"""


class RewardTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "assay")
        path.write_text(PROGRAM)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.problem = os.path.join(folder.name, "problem.py")
        pathlib.Path(self.problem).write_text("")
        patch = mock.patch.dict(os.environ, {"ASSAY_PROGRAM": str(path)})
        patch.start()
        self.addCleanup(patch.stop)

    def test_verdicts(self):
        self.assertTrue(assay.reward(self.problem, "right = 1"))
        self.assertEqual(assay.reward(self.problem, "wrong = 1").verdict, "fail")
        self.assertEqual(assay.reward(self.problem, "wrong = 1").title, "answer.py " + self.problem)

    def test_bad_code_never_raises(self):
        report = assay.reward(self.problem, "def f(:\n")
        self.assertEqual(report.verdict, "fail")
        self.assertRegex(report.reason, "^the answer is not Python: ")
        self.assertEqual(assay.reward(self.problem, "x = 1\0").verdict, "fail")
        self.assertEqual(assay.reward(self.problem, "refused = 1").verdict, "inconclusive")
        self.assertRegex(assay.reward(self.problem, "refused = 1").reason, "the language is unknown$")
        self.assertEqual(assay.reward(self.problem, "lacking = 1").verdict, "fail")

    def test_time_limit(self):
        began = time.monotonic()
        with mock.patch.object(program, "SECONDS_TO_STOP", 0.2):
            report = assay.reward(self.problem, "endless = 1", timeout=0.3)
        self.assertEqual((report.verdict, report.reason), ("inconclusive", "not judged within 0.3 s"))
        self.assertLess(time.monotonic() - began, 10)

    def test_own_time(self):
        """By default the limit is one of own time: a program that only waits uses it up, too."""
        began = time.monotonic()
        with (
            mock.patch.object(program, "SECONDS_TO_STOP", 0.2),
            mock.patch.object(rewards, "SECONDS_BESIDE_TRIALS", 0.5),
        ):
            report = assay.reward(self.problem, "endless = 1", budget=0.1)
        self.assertEqual(report.reason, "not judged within 0.6 s of its own time")
        self.assertGreater(time.monotonic() - began, 0.6)
        self.assertLess(time.monotonic() - began, 20)

    def test_many_at_once_do_not_use_up_each_others_time(self):
        """Each computes for a second; together they take longer than the limit of each."""
        jobs = 4 * (os.cpu_count() or 1)
        began = time.monotonic()
        with mock.patch.object(rewards, "SECONDS_BESIDE_TRIALS", 2.4):
            reports = assay.reward_many(self.problem, ["right = 'costly'"] * jobs, jobs=jobs, budget=0.1)
        self.assertGreater(time.monotonic() - began, 2.5)
        self.assertEqual([report.reason for report in reports], [""] * jobs)
        self.assertTrue(all(reports))

    def test_a_problem_that_is_not_there(self):
        with self.assertRaisesRegex(FileNotFoundError, "there is no problem nowhere.py"):
            assay.reward("nowhere.py", "right = 1")
        with self.assertRaisesRegex(FileNotFoundError, "there is no problem nowhere.json:1/3"):
            assay.reward("nowhere.json:1/3", "right = 1")

    def test_a_row_of_a_file(self):
        self.assertTrue(assay.reward(self.problem + ":1/3", "right = 1").title.endswith("problem.py:1/3"))

    def test_the_folder_of_the_caller_does_not_matter(self):
        folder, name = os.path.split(self.problem)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        self.assertEqual(assay.reward(name, "right = 1").title, "answer.py " + os.path.realpath(self.problem))

    def test_many_in_parallel_and_in_order(self):
        began = time.monotonic()
        reports = assay.reward_many(self.problem, ["right = 1", "wrong = 1"] * 4, jobs=8)
        self.assertEqual([bool(report) for report in reports], [True, False] * 4)
        self.assertLess(time.monotonic() - began, 8 * 0.3)
        with self.assertRaisesRegex(ValueError, "1 problems for 2 answers"):
            assay.reward_many([self.problem], ["a", "b"])

    def test_kinds_of_answers(self):
        self.assertEqual(_suffix('{"sources": []}'), ".json")
        self.assertEqual(_suffix("__global__ void f() {}"), ".cu")
        self.assertEqual(_suffix("import torch\nsource = '__global__ void f() {}'"), ".py")
        self.assertEqual(_suffix("{not json"), ".py")


class EnvironmentTest(unittest.TestCase):
    def test_nothing_of_a_virtual_gpu_is_passed_on(self):
        ours = os.path.join(os.path.dirname(os.path.dirname(str(support.PROGRAM))), "lib")
        site = os.path.join(program.paths.package_folder(), "assay", "site")
        variables = {
            "ASSAY_SETTINGS": "{}",
            "LD_PRELOAD": "%s/libcudart.so.13:/other.so %s/libcuda.so.1" % (ours, ours),
            "LD_LIBRARY_PATH": ours,
            "PYTHONPATH": site + ":/mine",
            "TRITON_CACHE_DIR": "/private",
            "ASSAY_PRELOAD": "/x",
        }
        with (
            mock.patch.dict(os.environ, variables),
            mock.patch.object(program.paths, "library", lambda name: ours + "/" + name),
        ):
            environment = program.environment()
        self.assertEqual((environment["LD_PRELOAD"], environment["PYTHONPATH"]), ("/other.so", "/mine"))
        for name in ("ASSAY_SETTINGS", "ASSAY_PRELOAD", "LD_LIBRARY_PATH", "TRITON_CACHE_DIR"):
            self.assertNotIn(name, environment)


if __name__ == "__main__":
    unittest.main()
