"""`pytest --assay` on a suite that launches a kernel with ctypes: who fails, and where it is said."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from support import ROOT, is_installed, needs_program, needs_pytest

SUITE = pathlib.Path(__file__).with_name("pytest_suite")


def run_pytest(*arguments):
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    environment = dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")
    environment.pop("ASSAY_SETTINGS", None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "assay.pytest_plugin", "-p", "no:cacheprovider", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )


@needs_pytest
class TableTest(unittest.TestCase):
    """The plugin runs without the program, so it has its own list of what each check finds."""

    def test_its_checks_and_kinds_are_those_of_the_program(self):
        from assay.pytest_plugin import DEFAULT_CHECKS, KINDS_OF_CHECKS

        kinds = re.findall(r'ASSAY_KIND\(\w+, "([^"]+)"', (ROOT / "src/finding/kinds.def").read_text())
        checks = re.findall(r'ASSAY_CHECK\(\w+, "([^"]+)"', (ROOT / "src/protocol/checks.def").read_text())
        self.assertLessEqual(set(KINDS_OF_CHECKS) | set(DEFAULT_CHECKS.split(",")), set(checks))
        self.assertLessEqual(set().union(*KINDS_OF_CHECKS.values()), set(kinds))


@needs_pytest
@needs_program
class PytestPluginTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            report, junit = os.path.join(folder, "report.json"), os.path.join(folder, "junit.xml")
            cls.ended = run_pytest("--assay", "--assay-json", report, "--junit-xml", junit, "-rA", str(SUITE))
            if not os.path.exists(report):
                raise AssertionError(cls.ended.stdout)
            with open(report) as file:
                cls.report = json.load(file)
            cls.cases = {
                case.get("name"): case for case in xml.etree.ElementTree.parse(junit).iter("testcase")
            }

    def test_the_one_with_the_finding_fails(self):
        self.assertEqual(self.ended.returncode, 1)
        for name, outcome in (
            ("test_right", "PASSED"),
            ("test_out_of_bounds", "FAILED"),
            ("test_right_again", "PASSED"),
            ("test_allowed", "PASSED"),
            ("test_only_other_checks", "PASSED"),
            ("test_no_check", "PASSED"),
            ("test_with_wrong_setup", "ERROR"),
        ):
            self.assertRegex(self.ended.stdout, r"(?m)^%s \S*test_fill\.py::%s\b" % (outcome, name))

    def test_the_report_says_what_and_where(self):
        self.assertRegex(
            self.ended.stdout,
            r"fill_kernel\.py:42: error: out-of-bounds: writes 4 bytes just past the end of",
        )
        self.assertIn("kernel fill, block (0,0,0), thread (50,0,0)", self.ended.stdout)

    def test_json(self):
        self.assertEqual(self.report["verdict"], "fail")
        tests = {test["test"].split("::")[1]: test for test in self.report["tests"]}
        self.assertEqual(
            sorted(tests),
            [
                "test_allowed",
                "test_no_check",
                "test_only_other_checks",
                "test_out_of_bounds",
                "test_with_wrong_setup",
            ],
        )
        self.assertEqual(
            (tests["test_out_of_bounds"]["phase"], tests["test_out_of_bounds"]["outcome"]), ("call", "failed")
        )
        self.assertEqual(
            (tests["test_with_wrong_setup"]["phase"], tests["test_allowed"]["outcome"]), ("setup", "passed")
        )
        finding = tests["test_out_of_bounds"]["findings"][0]
        self.assertEqual((finding["kind"], finding["where"]["line"]), ("out-of-bounds", 42))

    def test_junit_properties(self):
        properties = {
            one.get("name"): one.get("value") for one in self.cases["test_out_of_bounds"].iter("property")
        }
        self.assertRegex(properties["assay.out-of-bounds"], r"fill_kernel\.py:42: writes 4 bytes")
        self.assertEqual(list(self.cases["test_right_again"].iter("property")), [])

    @unittest.skipUnless(is_installed("xdist"), "pytest-xdist is not installed")
    def test_with_xdist(self):
        ended = run_pytest("--assay", "-n", "2", "-rA", str(SUITE))
        self.assertRegex(ended.stdout, r"(?m)^FAILED \S*test_fill\.py::test_out_of_bounds\b")
        self.assertRegex(ended.stdout, r"(?m)^PASSED \S*test_fill\.py::test_right_again\b")


@needs_pytest
class WithoutTheVirtualGpuTest(unittest.TestCase):
    def test_the_plugin_alone_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_plain.py")
            with open(path, "w") as file:
                file.write(
                    "import os, pytest\n@pytest.mark.assay(checks='none')\n"
                    "def test_plain():\n    assert 'ASSAY_SETTINGS' not in os.environ\n"
                )
            ended = run_pytest("--strict-markers", path)
        self.assertEqual(ended.returncode, 0, ended.stdout)


if __name__ == "__main__":
    unittest.main()
