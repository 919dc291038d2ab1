"""What a wheel is made from: versions and settings that agree, and Python that old interpreters can read."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import unittest

from support import ROOT, is_installed, needs_program

PYPROJECT = (ROOT / "pyproject.toml").read_text()


def table(name):
    """The assignments of a table of pyproject.toml, as text."""
    found = re.search(r"^\[%s\]\n((?:[^\[\n].*\n|\n)*)" % re.escape(name), PYPROJECT, re.MULTILINE)
    return dict(re.findall(r"^([\w.-]+) = (.*)$", found.group(1), re.MULTILINE))


class PackageTest(unittest.TestCase):
    def test_versions_agree(self):
        version = table("project")["version"].strip('"')
        self.assertIn("project(assay VERSION %s " % version, (ROOT / "CMakeLists.txt").read_text())
        project = ROOT / "examples/python-project"
        self.assertIn("rev: v%s\n" % version, (project / ".pre-commit-config.yaml").read_text())
        self.assertIn("OWNER/assay@v%s " % version, (project / ".github/workflows/kernels.yml").read_text())

    def test_the_preset_package_builds_what_a_wheel_holds(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        preset = next(one["cacheVariables"] for one in presets if one["name"] == "package")
        as_cmake = {"true": "ON", "false": "OFF"}
        defined = table("tool.scikit-build.cmake.define")
        self.assertEqual({name: as_cmake.get(value, value.strip('"')) for name, value in defined.items()}, preset)

    def test_the_oldest_python_can_read_it(self):
        version = re.search(r">=(\d+)\.(\d+)", table("project")["requires-python"]).groups()
        oldest = tuple(int(part) for part in version)
        for path in sorted((ROOT / "python").rglob("*.py")):
            with self.subTest(path=str(path)):
                ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=oldest)

    def test_the_hooks_of_the_example_exist(self):
        hooks = re.findall(r"^- id: (\S+)", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE)
        used = re.findall(r"- id: (\S+)", (ROOT / "examples/python-project/.pre-commit-config.yaml").read_text())
        self.assertTrue(used)
        self.assertLessEqual(set(used), set(hooks))

    @needs_program
    def test_the_scripts_start_the_programs(self):
        for script in table("project.scripts"):
            command = [sys.executable, "-c", f"from assay.__main__ import *; {'main' if script == 'assay' else script}()", "--help"]
            run = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(script, run.stdout)

    def test_what_the_entry_points_name_is_there(self):
        for section in ("project.scripts", "project.entry-points.pytest11"):
            for value in table(section).values():
                module, _, name = value.strip('"').partition(":")
                if module.endswith("pytest_plugin") and not is_installed("pytest"):
                    continue
                found = importlib.import_module(module)
                self.assertTrue(not name or callable(getattr(found, name)))


if __name__ == "__main__":
    unittest.main()
