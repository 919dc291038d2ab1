"""The worked example of docs/certificates.md: its commands print what the page says, numbers, times and keys apart."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import PROGRAM, ROOT, needs_program

PAGE = ROOT / "docs" / "certificates.md"
INPUTS = ROOT / "tests" / "commands" / "inputs"


def examples():
    """(command, expected output) of every `$ command` in the page."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def plain(text):
    text = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)
    text = re.sub(r"key \S+=", "key <key>", text)
    text = re.sub(r"\d+ trials \(all \d+ planned\)|\d+ of \d+ planned trials", "<n> trials", text)
    return re.sub(r"\d+(?:[.,:T-]\d+)*", "<n>", text).strip()


@needs_program
@unittest.skipUnless(shutil.which("openssl"), "openssl was not found")
class CertificatesPageTest(unittest.TestCase):
    def test_example(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("scale.toml", "scale.ptx"):
                shutil.copy(INPUTS / name, folder)
            variables = dict(os.environ, PATH="%s:%s" % (PROGRAM.parent, os.environ["PATH"]), NO_COLOR="1",
                             XDG_CACHE_HOME=os.path.join(folder, "cache"))
            ran = 0
            for command, expected in examples():
                done = subprocess.run(["sh", "-c", command], cwd=folder, env=variables, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, encoding="utf-8", check=False)
                # Words: where lines are wrapped depends on the numbers, and the two streams on each other.
                self.assertEqual(sorted(plain(done.stdout).split()), sorted(plain(expected).split()), command)
                ran += 1
            self.assertEqual(ran, 8)


if __name__ == "__main__":
    unittest.main()
