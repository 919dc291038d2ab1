"""The GitHub Action (action.yml), its steps run one after the other as a runner does it: in a workspace of its
own, with programs in place of sudo and python that write down what they are asked."""

import os
import pathlib
import re
import stat
import subprocess
import tempfile
import textwrap
import unittest

from support import ROOT

SUDO = """#!/bin/sh
echo "sudo $*" >> "$LOG"
"""
PYTHON = """#!/bin/sh
echo "python $*" >> "$LOG"
if [ "$3" = wheel ]; then mkdir -p "$6" && touch "$6/assay-1-py3-none-any.whl"; fi
"""


def steps():
    """The steps of action.yml: name, id, env and run. `uses` is left to GitHub."""
    text = (ROOT / "action.yml").read_text()
    for part in re.split(r"^    - name: ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        found = {"name": name, "id": "", "run": "", "env": {}}
        key = re.search(r"^      id: (\w+)$", rest, re.MULTILINE)
        env = re.search(r"^      env:\n((?:        .*\n)+)", rest, re.MULTILINE)
        block = re.search(r"^      run: \|\n((?:        .*\n|\n)+)", rest + "\n", re.MULTILINE)
        line = re.search(r"^      run: ([^|\n].*)$", rest, re.MULTILINE)
        found["id"] = key.group(1) if key else ""
        found["env"] = dict(re.findall(r"^        (\w+): (.*)$", env.group(1), re.MULTILINE)) if env else {}
        found["run"] = textwrap.dedent(block.group(1)) if block else line.group(1) if line else ""
        yield found


class ActionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("sudo", SUDO), ("python", PYTHON)):
            path = self.folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        (self.folder / "workspace").mkdir()
        self.log = self.folder / "log"

    def run_action(self, **inputs):
        """Runs the steps until one fails; returns that one's name, or "", and all that was printed."""
        self.log.write_text("")
        values = {"runner.temp": str(self.folder / "temp"), "runner.os": "Linux"}
        values.update({"inputs." + name: value for name, value in inputs.items()})
        printed = ""
        for step in steps():
            if not step["run"]:
                continue
            env = {name: self.filled(value, values) for name, value in step["env"].items()}
            script = self.folder / "step.sh"
            script.write_text(step["run"])
            output = self.folder / "output"
            output.write_text("")
            env.update(
                PATH="%s:%s" % (self.folder / "bin", os.environ["PATH"]),
                LOG=str(self.log),
                GITHUB_ACTION_PATH=str(ROOT),
                GITHUB_OUTPUT=str(output),
            )
            ended = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=self.folder / "workspace",
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                universal_newlines=True,
            )
            printed += ended.stdout
            if ended.returncode:
                return step["name"], printed
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                values["steps.%s.outputs.%s" % (step["id"], name)] = value
        self.values = values
        return "", printed

    def filled(self, text, values):
        return re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: values[found.group(1)], text)

    def test_builds_installs_and_runs(self):
        failed, printed = self.run_action(packages="torch triton", run="echo ran in $(basename $PWD)")
        self.assertEqual((failed, printed), ("", "ran in workspace\n"))
        self.assertRegex(self.values["steps.wheel.outputs.key"], "^[0-9a-f]{16}$")
        update, install, wheel, pip = self.log.read_text().splitlines()
        self.assertEqual(update, "sudo apt-get update -qq")
        wanted = [line for line in (ROOT / "scripts/packages.txt").read_text().splitlines() if line[0] != "#"]
        self.assertEqual(install.split()[-len(wanted) :], wanted)
        self.assertIn("g++ cmake", install)
        folder = self.folder / "temp/assay-wheel"
        self.assertEqual(wheel, "python -m pip wheel --no-deps -w %s %s" % (folder, ROOT))
        built = self.folder / "temp/assay-wheel/assay-1-py3-none-any.whl"
        self.assertEqual(pip, "python -m pip install %s torch triton" % built)

    def test_a_wheel_from_the_cache_is_not_built_again(self):
        wheel = self.folder / "temp/assay-wheel/assay-2-py3-none-any.whl"
        wheel.parent.mkdir(parents=True)
        wheel.touch()
        failed, _ = self.run_action(packages="", run="true")
        self.assertEqual(failed, "")
        self.assertEqual(self.log.read_text(), "python -m pip install %s\n" % wheel)

    def test_fails_when_the_command_does(self):
        for command in ("false; true", "false | true", "exit 3"):
            self.assertEqual(self.run_action(packages="", run=command)[0], "Run", command)

    def test_the_key_of_the_cache_is_that_of_the_sources(self):
        text = (ROOT / "action.yml").read_text()
        self.assertIn("key: assay-wheel-${{ runner.os }}-${{ steps.wheel.outputs.key }}", text)
        self.assertIn("path: ${{ runner.temp }}/assay-wheel", text)


if __name__ == "__main__":
    unittest.main()
