"""The worked example of docs/certificates.md: its commands print what the page says, numbers, times and keys apart."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from support import PROGRAM, ROOT, is_installed, needs_program

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
    text = re.sub(r"\d+ trials \((?:all )?\d+ planned\)|\d+ of \d+ planned trials", "<n> trials", text)
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


@needs_program
@unittest.skipUnless(shutil.which("openssl"), "openssl was not found")
@unittest.skipUnless(any(map(is_installed, ("securesystemslib", "sigstore", "in_toto_attestation"))), "no other reader is installed")
class OtherReadersTest(unittest.TestCase):
    """Certificates as other people's libraries read them (pip install sigstore securesystemslib in-toto-attestation)."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        where = cls.folder.name
        for name in ("scale.toml", "scale.ptx"):
            shutil.copy(INPUTS / name, where)
        cls.files = {}
        for kind, options in (("ed25519", "-algorithm ed25519"), ("p256", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256")):
            subprocess.run(f"openssl genpkey {options} -out {kind}.pem 2>/dev/null && openssl pkey -in {kind}.pem -pubout -out {kind}.pub.pem",
                           shell=True, cwd=where, check=True)
            subprocess.run([str(PROGRAM), "certify", "scale.toml", "--key", kind + ".pem", "-o", kind + ".json", "--budget", "10", "--no-prove"],
                           cwd=where, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env=dict(os.environ, XDG_CACHE_HOME=where + "/cache"))
            cls.files[kind] = (pathlib.Path(where, kind + ".json").read_text(), pathlib.Path(where, kind + ".pub.pem").read_bytes())

    def test_shape_of_a_bundle(self):
        for text, _ in self.files.values():
            bundle = json.loads(text)
            self.assertEqual(list(bundle), ["mediaType", "verificationMaterial", "dsseEnvelope"])
            self.assertEqual(bundle["verificationMaterial"]["tlogEntries"], [])
            statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
            self.assertEqual(statement["_type"], "https://in-toto.io/Statement/v1")

    @unittest.skipUnless(is_installed("securesystemslib") and is_installed("cryptography"), "securesystemslib is not installed")
    def test_securesystemslib(self):
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from securesystemslib.dsse import Envelope
        from securesystemslib.signer import SSlibKey

        def verify(envelope, pem):
            key = SSlibKey.from_crypto(load_pem_public_key(pem))
            envelope = dict(envelope, signatures=[{"sig": envelope["signatures"][0]["sig"], "keyid": key.keyid}])
            return Envelope.from_dict(envelope).verify([key], 1)

        for text, pem in self.files.values():
            envelope = json.loads(text)["dsseEnvelope"]
            self.assertEqual(len(verify(envelope, pem)), 1)
            changed = base64.b64decode(envelope["payload"]).replace(b'"seed":1', b'"seed":2')
            with self.assertRaises(Exception):
                verify(dict(envelope, payload=base64.b64encode(changed).decode()), pem)

    @unittest.skipUnless(is_installed("sigstore"), "sigstore is not installed")
    def test_sigstore(self):
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from sigstore import dsse
        from sigstore_models.bundle.v1 import Bundle

        for text, _ in self.files.values():
            Bundle.from_json(text)
        text, pem = self.files["p256"]  # sigstore-python checks signatures of ECDSA keys only
        envelope = dsse.Envelope._from_json(json.dumps(json.loads(text)["dsseEnvelope"]))
        self.assertIn(b"urn:assay:verdict:v1", dsse._verify(load_pem_public_key(pem), envelope))

    @unittest.skipUnless(is_installed("in_toto_attestation"), "in-toto-attestation is not installed")
    def test_in_toto(self):
        from google.protobuf import json_format
        from in_toto_attestation.v1 import statement, statement_pb2

        payload = base64.b64decode(json.loads(self.files["ed25519"][0])["dsseEnvelope"]["payload"])
        read = statement.Statement.copy_from_pb(json_format.Parse(payload, statement_pb2.Statement()))
        read.validate()
        self.assertEqual([one.name for one in read.pb.subject], ["scale.ptx"])


if __name__ == "__main__":
    unittest.main()
