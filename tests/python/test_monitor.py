"""The monitor from Python, and the files for Prometheus, Grafana and systemd."""

import configparser
import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from support import ROOT

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
            + ["--listen", "unix:" + folder + "/http"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.program.stdout.readline()

    def metrics(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.folder + "/http")
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            text = b""
            while part := client.recv(65536):
                text += part
        return text.decode().partition("\r\n\r\n")[2]

    def close(self):
        self.program.kill()
        self.program.wait()
        self.program.stdout.close()


class MonitorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.assayd = Assayd(self.folder)
        self.addCleanup(self.assayd.close)
        os.environ["ASSAYD_SOCKET"] = self.folder + "/s"

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

    def test_what_cannot_be_watched(self):
        contract = Path(self.folder, "wrong.toml")
        contract.write_text("[kernel]\n")
        with self.assertRaisesRegex(MonitorError, "wrong.toml"):
            Watch(contract)

    def test_dashboards_and_alerts_use_metrics_that_exist(self):
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
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        if promtool := shutil.which("promtool"):
            subprocess.run([promtool, "check", "rules", str(DEPLOY / "alerts.yml")], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=True)

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
