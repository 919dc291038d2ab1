"""The monitor from Python, and the files for Prometheus, Grafana and systemd."""

import configparser
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

from support import PROGRAM, ROOT, is_installed, needs_program

from assay import paths
from assay.monitor import MonitorError, Watch

DEPLOY = ROOT / "examples" / "production" / "deploy"
CONTRACT = (ROOT / "tests" / "commands" / "inputs" / "scale.toml").read_text()


class Assayd:
    """A running assayd."""

    def __init__(self, folder):
        self.folder = folder
        self.program = subprocess.Popen(
            [str(Path(paths.program()).parent / "assayd"), "--socket", folder + "/s", "--state", folder]
            + ["--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address = re.search(r"http://\S+?(?=/metrics)", self.program.stdout.readline()).group()

    def metrics(self):
        with urllib.request.urlopen(self.address + "/metrics") as answer:
            return answer.read().decode()

    def close(self):
        self.program.kill()
        self.program.wait()
        self.program.stdout.close()


class MonitorTest(unittest.TestCase):
    def run(self, result=None):
        """In a process of its own where torch is loaded: its CUDA runtime would take the place of the virtual device's."""
        if "torch" not in sys.modules:
            return super().run(result)
        result.startTest(self)
        done = subprocess.run([sys.executable, "-m", "unittest", self.id()], cwd=Path(__file__).parent, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            result.addFailure(self, (AssertionError, AssertionError(done.stderr), None))
        elif "skipped=" in done.stderr:
            result.addSkip(self, "skipped in a process of its own")
        else:
            result.addSuccess(self)
        result.stopTest(self)
        return result

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.assayd = Assayd(self.folder)
        self.addCleanup(self.assayd.close)
        os.environ["ASSAYD_SOCKET"] = self.folder + "/s"

    def watch_some_calls(self):
        """Two right calls and a wrong one, judged."""
        self.test_calls_are_watched()

    def test_calls_are_watched(self):
        runtime = ctypes.CDLL(paths.library("libcudart.so.13"), ctypes.RTLD_GLOBAL)
        device = []
        for _ in range(2):
            device.append(ctypes.c_void_p())
            self.assertEqual(runtime.cudaMalloc(ctypes.byref(device[-1]), 256), 0)
        x, y = (pointer.value for pointer in device)
        contract = Path(self.folder, "scale.toml")
        contract.write_text(CONTRACT + "\n[monitor]\nevery = 1\nmax_bytes = '64KiB'\n")
        Path(self.folder, "scale.ptx").write_text("")
        watch = Watch(contract, stream=lambda: 0)
        self.addCleanup(watch.close)
        factor = 2.0

        @watch
        def scale(x, y, n):
            values = (ctypes.c_float * n)(*range(n))
            runtime.cudaMemcpy(ctypes.c_void_p(x), values, 4 * n, 1)
            values = (ctypes.c_float * n)(*[factor * i for i in range(n)])
            runtime.cudaMemcpy(ctypes.c_void_p(y), values, 4 * n, 1)

        def call_until(done):
            for _ in range(300):
                scale(x, y, 8)
                watch.flush(2)
                if done():
                    return
                time.sleep(0.01)
            self.fail(self.assayd.metrics())

        scale(x, y, 8)  # what is judged are inputs before the call: this one had none
        call_until(lambda: watch.counts()["samples"] > watch.counts()["dropped"] + 1)
        self.assertIn("assay_alarms 0", self.assayd.metrics())
        factor = 3.0
        call_until(lambda: "assay_alarms 1" in self.assayd.metrics())
        with self.assertRaises(TypeError):
            scale(x, y)

    @needs_program
    def test_a_fleet_of_one(self):
        self.watch_some_calls()
        done = subprocess.run([str(PROGRAM), "fleet", self.assayd.address, "--json", self.folder + "/fleet.json"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)  # there is an alarm
        kernel = json.loads(Path(self.folder, "fleet.json").read_text())["kernels"][0]
        self.assertEqual((kernel["kernel"], kernel["places"], kernel["alarms"]), ("scale", 1, 1))
        self.assertIn("scale", done.stdout)
        gone = subprocess.run([str(PROGRAM), "fleet", "http://127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(gone.returncode, 3, gone.stderr)
        self.assertIn("refused", gone.stderr)

    def test_what_cannot_be_watched(self):
        contract = Path(self.folder, "wrong.toml")
        contract.write_text("[kernel]\n")
        with self.assertRaisesRegex(MonitorError, "wrong.toml"):
            Watch(contract)

    def test_dashboards_and_alerts_use_metrics_that_exist(self):
        self.watch_some_calls()  # series with shapes begin with the first sample
        text = self.assayd.metrics()
        families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
        known = set(families)
        for name, kind in families.items():
            if kind == "histogram":
                known |= {name + part for part in ("_bucket", "_sum", "_count")}
        self.assertGreater(len(known), 20)
        dashboard = json.loads((DEPLOY / "grafana.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        expressions += [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
        rules = (DEPLOY / "alerts.yml").read_text()
        expressions += re.findall(r"expr: (.*)", rules)
        self.assertGreater(len(expressions), 18)
        for expression in expressions:
            for name in re.findall(r"\bassay_\w+", expression):
                self.assertIn(name, known, expression)
        # Series with shapes are compared only with sums: one side of a comparison has no such label.
        with_shape = set(re.findall(r'^(\w+?)(?:_bucket|_sum|_count)?\{[^}]*shape="', text, re.M))
        self.assertIn("assay_violations_total", with_shape)
        for expression in expressions:
            if any(name in expression for name in with_shape) and "label_values" not in expression:
                self.assertRegex(expression, r"\bsum( by \([^)]*\))? ?\(", expression)
        # Every metric of a kernel can be seen somewhere, and is documented.
        page = (ROOT / "docs" / "monitor.md").read_text()
        for name in families:
            self.assertTrue("`%s`" % name in page or "`%s{" % name in page, name + " is not in docs/monitor.md")

    def test_the_dashboard_is_laid_out(self):
        """By Grafana's JSON model: panels have numbers of their own, do not overlap, and ask the source that the user chooses."""
        dashboard = json.loads((DEPLOY / "grafana.json").read_text())
        self.assertGreaterEqual(dashboard["schemaVersion"], 36)  # variables as objects, `datasource` with type and uid
        variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
        self.assertEqual((variables["datasource"]["type"], variables["datasource"]["query"]), ("datasource", "prometheus"))
        asked = {"type": "prometheus", "uid": "${datasource}"}
        taken = set()
        for panel in dashboard["panels"]:
            self.assertEqual(panel["datasource"], asked, panel["title"])
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            for target in panel["targets"]:
                self.assertLessEqual(set(re.findall(r"\$(\w+)", target["expr"])), set(variables), target["expr"])
        for numbers in ([panel["id"] for panel in dashboard["panels"]],
                        *([target["refId"] for target in panel["targets"]] for panel in dashboard["panels"])):
            self.assertEqual(len(numbers), len(set(numbers)))

    @unittest.skipUnless(is_installed("promql_parser"), "promql_parser is not installed")
    def test_the_expressions_are_promql(self):
        import promql_parser

        with self.assertRaises(ValueError):
            promql_parser.parse("sum(rate(assay_calls_total[5m])")
        dashboard = json.loads((DEPLOY / "grafana.json").read_text())
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                expressions.append(re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"]).group(1))
        expressions += re.findall(r"expr: (.*)", (DEPLOY / "alerts.yml").read_text())
        self.assertGreater(len(expressions), 20)
        for expression in expressions:
            promql_parser.parse(re.sub(r"\$\w+", "name", expression))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze was not found")
    def test_systemd_reads_the_unit(self):
        done = subprocess.run(["systemd-analyze", "verify", str(DEPLOY / "assayd.service")], capture_output=True, text=True, check=False)
        # That the program is not installed here is no fault of the unit.
        problems = [line for line in done.stderr.splitlines() if "assayd.service" in line and "is not executable" not in line]
        self.assertEqual(problems, [])

    @unittest.skipUnless(shutil.which("promtool"), "promtool was not found (Debian: the package prometheus)")
    def test_prometheus_reads_metrics_and_rules(self):
        self.watch_some_calls()
        text = self.assayd.metrics()
        self.assertIn("assay_error_over_budget_bucket{", text)
        for words, given in ((["check", "metrics"], text), (["check", "rules", str(DEPLOY / "alerts.yml")], "")):
            done = subprocess.run(["promtool", *words], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertNotIn("error", done.stdout.lower())

    @unittest.skipUnless(shutil.which("chromium"), "chromium was not found")
    def test_the_page_in_a_browser(self):
        self.watch_some_calls()
        done = subprocess.run([sys.executable, str(ROOT / "tests" / "assayd" / "browser.py"), self.assayd.address, "--kernel", "scale",
                               "--alarms", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_unit_uses_options_that_exist(self):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read(DEPLOY / "assayd.service")
        program = str(Path(paths.program()).parent / "assayd")
        help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
        for option in re.findall(r"--\w+", unit["Service"]["ExecStart"]):
            self.assertIn(option, help_text)
        self.assertEqual(unit["Service"]["Restart"], "always")


if __name__ == "__main__":
    unittest.main()
