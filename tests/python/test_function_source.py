"""Functions that another process finds again: by name, by the statements they need, by their line."""

import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from support import ROOT
from assay import function_source, statements

SCRIPT = """
import math
import os.path as where
from json import *
raise_if_run = 1 / len([1])
FACTOR = 3
UNUSED = [].pop() if 0 else None


def times(x):
    return x * FACTOR


def decorated(function):
    return function


@decorated
def scaled(x, eps=FACTOR):
    local = times(x) + eps
    report = local
    return report


class Box:
    @staticmethod
    def member(x):
        return scaled(x)


def outer(shift):
    def inner(x):
        return times(x) + shift
    return inner, (lambda x: math.floor(x) + shift)


report = 1 / 0
if __name__ == "__main__":
    raise SystemExit("the script ran")
"""


class LoadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(sys.modules.pop, "assay_function", None)
        self.path = os.path.join(folder.name, "script.py")
        pathlib.Path(self.path).write_text(SCRIPT)

    def line_of(self, text):
        return SCRIPT[: SCRIPT.index(text)].count("\n") + 1

    def test_takes_what_a_function_needs_and_nothing_else(self):
        scaled = statements.load(self.path, name="scaled")
        self.assertEqual(scaled(2), 9)
        self.assertNotIn("UNUSED", scaled.__globals__)
        self.assertNotIn("Box", scaled.__globals__)

    def test_keeps_file_and_line(self):
        scaled = statements.load(self.path, name="scaled")
        self.assertEqual(
            (scaled.__code__.co_filename, scaled.__code__.co_firstlineno),
            (self.path, self.line_of("@decorated")),
        )

    def test_members(self):
        self.assertEqual(statements.load(self.path, name="Box.member")(2), 9)

    def test_nested_functions_and_lambdas_by_line(self):
        inner = statements.load(self.path, line=self.line_of("def inner"), given={"shift": 5})
        self.assertEqual(inner(2), 11)
        rounded = statements.load(self.path, line=self.line_of("return inner, (lambda"), given={"shift": 5})
        self.assertEqual(rounded(2.5), 7)

    def test_what_is_not_there(self):
        with self.assertRaisesRegex(TypeError, "does not define `nothing`"):
            statements.load(self.path, name="nothing")
        with self.assertRaisesRegex(TypeError, "no function begins here"):
            statements.load(self.path, line=1)


class ExportTest(unittest.TestCase):
    def export_and_call(self, script, expression):
        """Runs a script that exports a function, then calls the written file in another process."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "main.py")
            pathlib.Path(folder, "helper.py").write_text("def twice(x):\n    return 2 * x\n")
            pathlib.Path(path).write_text(textwrap.dedent(script))
            environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
            made = subprocess.run(
                [sys.executable, path, folder],
                env=environment,
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            if made.returncode:
                return made.stderr.strip().split("\n")[-1]
            called = subprocess.run(
                [sys.executable, "-c", "import assay_subject as subject; print(%s)" % expression],
                env=environment,
                cwd=os.path.join(folder, "subject"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            return called.stdout.strip() or called.stderr

    START = (
        "import pathlib, sys\nfrom assay.function_source import export\nfolder = pathlib.Path(sys.argv[1])\n"
    )

    def test_function_of_a_module_is_imported(self):
        script = self.START + "import helper\nexport(helper.twice, ['x'], folder, 'subject', globals())\n"
        self.assertEqual(
            self.export_and_call(script, "subject.run(4), subject.function.__module__"), "8 helper"
        )

    def test_module_of_a_folder_that_has_left_the_path(self):
        script = (
            self.START + "import helper\nsys.path.remove(sys.path[0])\n"
            "export(helper.twice, ['x'], folder, 'subject', globals())\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(4)"), "8")

    def test_function_of_a_script_does_not_run_the_script(self):
        script = self.START + (
            "from helper import twice\nprint(1)\ndef f(x, *, y):\n    return twice(x) + y\n"
            "export(f, ['x', 'y'], folder, 'subject', globals(), keywords=['y'])\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(4, 1)"), "9")

    def test_lambda_with_a_closure(self):
        script = self.START + (
            "import math\ndef g(n):\n    return lambda x: math.floor(x) + n\n"
            "export(g(3), ['x'], folder, 'subject', globals())\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(1.5)"), "4")

    def test_one_of_two_lambdas_on_a_line(self):
        script = (
            self.START
            + "N = 2\na, b = lambda x: x + 1, lambda x, n=N: x + n\n"
            + "export(b, ['x'], folder, 'subject', globals())\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(1)"), "3")

    def test_object_of_a_script_by_its_name(self):
        script = self.START + (
            "import functools, helper\nf = functools.partial(helper.twice)\n"
            "export(f, ['x'], folder, 'subject', globals())\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(5)"), "10")

    def test_cells_of_a_notebook(self):
        script = self.START + (
            "cells = ['', '%matplotlib inline\\nimport math', 'N = 2',"
            " 'def f(x):\\n    return math.floor(x) + N', '1 / 0']\n"
            "notebook = dict(In=cells, get_ipython=None, __name__='__main__')\n"
            "exec('\\n'.join(cells[1:4]).replace('%matplotlib inline', ''), notebook)\n"
            "export(notebook['f'], ['x'], folder, 'subject', {})\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(1.5)"), "3")

    def test_dict_of_results(self):
        script = self.START + (
            "def f(x):\n    return {'b': 1, 'a': x}\n"
            "export(f, ['x'], folder, 'subject', globals(), outputs=['a', 'b'])\n"
        )
        self.assertEqual(self.export_and_call(script, "subject.run(5)"), "(5, 1)")

    def test_what_is_written_does_not_import_the_checker(self):
        """A check takes an import of `assay` in an answer for an attempt to recognise it."""
        with tempfile.TemporaryDirectory() as folder:
            function_source.export(lambda x: x, ["x"], pathlib.Path(folder), "subject", globals())
            for file in pathlib.Path(folder).rglob("*.py"):
                for node in ast.walk(ast.parse(file.read_text())):
                    names = [
                        alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)
                    ]
                    self.assertNotIn(
                        "assay", [name.split(".")[0] for name in names + [getattr(node, "module", "") or ""]]
                    )

    def test_what_cannot_be_found_is_said(self):
        script = (
            self.START
            + "import functools\nexport(functools.partial(print), ['x'], folder, 'subject', globals())\n"
        )
        self.assertIn("define it at the top level of a module or a script", self.export_and_call(script, ""))
        script = self.START + (
            "def g(n):\n    return lambda x: x + n[0]\nexport(g([1]), ['x'], folder, 'subject', globals())\n"
        )
        self.assertIn("uses the variable `n` of the function around it", self.export_and_call(script, ""))


if __name__ == "__main__":
    unittest.main()
