"""What somebody might try who wants `assay verify` to say GOOD: each attempt ends with one line that says what is wrong, and
with the right exit status. The certificates are made here, with openssl, and not by Assay: whoever forges one does not ask it."""

import base64
import copy
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import PROGRAM, needs_program

GOOD, UNMET, WRONG_USE, UNVERIFIED = 0, 1, 2, 3
STATEMENT = "application/vnd.in-toto+json"
MEDIA = "application/vnd.dev.sigstore.bundle.v0.3+json"
LIBRARY = b"the bytes of a library"
CONTRACT = b"[kernel]\n"
NOW = datetime.datetime.now(datetime.timezone.utc)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def base64_of(data):
    return base64.b64encode(data).decode()


def time_text(time):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def statement():
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "libkernel.so", "digest": {"sha256": digest(LIBRARY)}, "annotations": {"kind": "library"}}],
        "predicateType": "urn:assay:verdict:v1",
        "predicate": {
            "verdict": "pass",
            "contract": {"name": "kernel.toml", "sha256": digest(CONTRACT), "files": []},
            "assay": "0.1.0",
            "toolchain": {"nvcc": "13.0.88", "flags": [], "arch": "sm_90"},
            "devices": [{"kind": "virtual", "name": "NVIDIA H200", "driver": ""}],
            "coverage": {
                "dims": [{"name": "n", "tried_min": 1, "tried_max": 4096, "promised_min": 1, "promised_max": 4096}],
                "trials": 144, "planned": 144, "conditions": [], "inputs": [], "not_checked": []},
            "proofs": [], "training": [],
            "profile": {"z_edges": [], "z_beyond": [], "elements": 0},
            "warnings": [], "seed": 1, "timeCreated": time_text(NOW)},
    }


def without(key):
    made = statement()
    del made["predicate"][key]
    return made


def changed(**predicate):
    made = statement()
    made["predicate"].update(predicate)
    return made


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Signer:
    """A key pair in a folder, and what openssl signs with it."""

    def __init__(self, folder, name, options="-algorithm ed25519"):
        self.folder, self.private, self.public = folder, folder / (name + ".pem"), folder / (name + ".pub.pem")
        subprocess.run(f"openssl genpkey {options} -out {self.private} 2>/dev/null && openssl pkey -in {self.private} -pubout -out {self.public}",
                       shell=True, check=True)
        self.is_edwards = "ed25519" in options
        der = subprocess.run(["openssl", "pkey", "-pubin", "-in", self.public, "-outform", "DER"], check=True, capture_output=True).stdout
        self.hint = base64.b64encode(hashlib.sha256(der).digest()).decode()

    def sign(self, payload, kind=STATEMENT):
        message = self.folder / "message"
        message.write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload))
        command = (["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", self.private, "-in", message] if self.is_edwards
                   else ["openssl", "dgst", "-sha256", "-sign", self.private, message])
        return subprocess.run(command, check=True, capture_output=True).stdout

    def bundle(self, payload, kind=STATEMENT, hint=None):
        payload = payload if isinstance(payload, bytes) else compact(payload).encode()
        return {"mediaType": MEDIA,
                "verificationMaterial": {"publicKey": {"hint": hint or self.hint}, "tlogEntries": []},
                "dsseEnvelope": {"payload": base64_of(payload), "payloadType": kind, "signatures": [{"sig": base64_of(self.sign(payload, kind))}]}}


def file_of(bundle):
    return compact(bundle) + "\n"


def edited(bundle, edit):
    bundle = copy.deepcopy(bundle)
    edit(bundle)
    return file_of(bundle)


def blank_in_signature(bundle):
    signature = bundle["dsseEnvelope"]["signatures"][0]
    signature["sig"] = signature["sig"][:8] + "\n" + signature["sig"][8:]


def url_safe_payload(bundle):
    envelope = bundle["dsseEnvelope"]
    envelope["payload"] = base64.urlsafe_b64encode(base64.b64decode(envelope["payload"]) + b"\xff\xfe").decode()


def unpadded(bundle):
    signature = bundle["dsseEnvelope"]["signatures"][0]
    signature["sig"] = signature["sig"].rstrip("=")


def leftover_bits(bundle):
    """Another text for the same bytes: the last character before the padding has bits that do not count."""
    signature = bundle["dsseEnvelope"]["signatures"][0]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = signature["sig"].rstrip("=")
    signature["sig"] = text[:-1] + alphabet[alphabet.index(text[-1]) ^ 1] + "=="


@needs_program
@unittest.skipUnless(shutil.which("openssl"), "openssl was not found")
class AttacksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.signer, cls.other = Signer(cls.folder, "signer"), Signer(cls.folder, "other")
        cls.bundle = cls.signer.bundle(statement())
        (cls.folder / "libkernel.so").write_bytes(LIBRARY)
        (cls.folder / "kernel.toml").write_bytes(CONTRACT)

    def verify(self, certificate=None, *options, key=None, policy=None):
        """Exit status, what was printed on stdout, and the lines of stderr."""
        path = self.folder / "k.assay.json"
        if certificate is not None:
            path.write_bytes(certificate if isinstance(certificate, bytes) else certificate.encode())
        if policy is not None:
            (self.folder / "policy.toml").write_text(policy)
            options += ("--policy", "policy.toml")
        done = subprocess.run([str(PROGRAM), "verify", str(path), "--key", str(key or self.signer.public), *options], cwd=self.folder,
                              capture_output=True, timeout=20, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode().splitlines()

    def expect(self, name, status, words, certificate=None, *options, lines=1, **more):
        with self.subTest(name):
            got, text, errors = self.verify(certificate, *options, **more)
            self.assertEqual(got, status, errors)
            self.assertIn(words, "\n".join(errors))
            self.assertNotIn("GOOD", text)
            if lines:
                self.assertEqual(len(errors), lines, errors)

    def test_what_is_genuine_is_good(self):
        """Otherwise the other tests would show nothing."""
        for name, text in (("as Assay writes it", file_of(self.bundle)),
                           ("a field that a later version may add", file_of(self.signer.bundle(dict(statement(), later=1))))):
            with self.subTest(name):
                status, text, errors = self.verify(text, "--file", "libkernel.so", "--contract", "kernel.toml", "--arch", "sm_90")
                self.assertEqual((status, errors), (GOOD, []))
                self.assertTrue(text.startswith("GOOD"))

    def test_files(self):
        good = file_of(self.bundle)
        same_name = self.folder / "build"
        same_name.mkdir(exist_ok=True)
        (same_name / "libkernel.so").write_bytes(LIBRARY + b"!")
        (same_name / "kernel.toml").write_bytes(CONTRACT + b"\n")
        (same_name / "empty.so").write_bytes(b"")
        with open(same_name / "huge.so", "wb") as file:
            file.truncate(3 << 30)  # zeros that take no room on the disk
        link = same_name / "link.so"
        if not link.is_symlink():
            link.symlink_to(self.folder / "libkernel.so")
        self.assertEqual(self.verify(good, "--file", "build/link.so")[0], GOOD)
        link.unlink()
        link.symlink_to("libkernel.so")  # swapped for the other library
        os.mkfifo(same_name / "pipe.so")
        for file, words in (("build/libkernel.so", "not the certified libkernel.so: its SHA-256 is"),
                            ("build/link.so", "not certified: the certificate is for libkernel.so"), ("build/empty.so", "not certified"),
                            ("build/huge.so", "not certified"), ("build", "cannot be read: it is not a file"),
                            ("build/pipe.so", "cannot be read: it is not a file"), ("/dev/zero", "cannot be read: it is not a file"),
                            ("missing.so", "cannot be read: No such file")):
            self.expect(file, UNVERIFIED, words, good, "--file", file)
            self.expect(file + " after a good one", UNVERIFIED, words, good, "--file", "libkernel.so", "--file", file)
        self.expect("another contract of the same name", UNVERIFIED, "not the certified contract", good, "--contract", "build/kernel.toml")
        self.expect("another architecture", UNVERIFIED, "the certificate is for sm_90, not sm_100", good, "--arch", "sm_100")

    def test_changed_bundles(self):
        bundle = self.bundle
        text = file_of(bundle)
        envelope, payload = bundle["dsseEnvelope"], base64.b64decode(bundle["dsseEnvelope"]["payload"])
        second = dict(bundle, dsseEnvelope=dict(envelope, signatures=envelope["signatures"] + [{"sig": base64_of(self.other.sign(payload))}]))
        for name, certificate, words in (
                ("reordered keys", file_of(dict(reversed(bundle.items()))), "was changed"),
                ("a duplicate key", text.replace('{"mediaType"', '{"mediaType":"x","mediaType"', 1), "was changed"),
                ("a duplicate payload", text.replace('"payload":', '"payload":"AAAA","payload":', 1), "was changed"),
                ("formatted", json.dumps(bundle, indent=2) + "\n", "was changed"),
                ("no line end", text[:-1], "was changed"), ("a line more", text + "\n", "was changed"),
                ("garbage after it", text + "x", "damaged or truncated"), ("a byte order mark", "\ufeff" + text, "was changed"),
                ("cut in the middle", text[:len(text) // 2], "damaged or truncated"), ("empty", "", "damaged or truncated"),
                ("an escaped character", text.replace("mediaType", "\\u006dediaType", 1), "was changed"),
                ("two signatures", file_of(second), "was changed"),
                ("no signature", edited(bundle, lambda b: b["dsseEnvelope"]["signatures"].clear()), "its signature cannot be read"),
                ("an empty signature", edited(bundle, lambda b: b["dsseEnvelope"]["signatures"][0].update(sig="")), "its signature cannot be read"),
                ("a field more", edited(bundle, lambda b: b["dsseEnvelope"]["signatures"][0].update(keyid="x")), "was changed"),
                ("a blank in base64", edited(bundle, blank_in_signature), "cannot be read"), ("base64 without padding", edited(bundle, unpadded), "cannot be read"),
                ("base64 of URLs", edited(bundle, url_safe_payload), "cannot be read"), ("bits that do not count", edited(bundle, leftover_bits), "cannot be read"),
                ("a list", "[" + text + "]", "not a certificate"), ("a number", "1\n", "not a certificate"),
                ("deep", "[" * 1_000_000, "damaged or truncated"), ("no UTF-8", text.encode().replace(b"sigstore", b"sig\xffstore"), "damaged or truncated"),
                ("a later bundle", text.replace("bundle.v0.3", "bundle.v0.9"), "unknown version"),
                ("the payload of another", file_of(dict(bundle, dsseEnvelope=dict(envelope, payload=base64_of(payload.replace(b'"seed":1', b'"seed":2'))))),
                 "the signature does not match"),
                ("another type than was signed", edited(bundle, lambda b: b["dsseEnvelope"].update(payloadType="text/plain")), "the signature does not match")):
            self.expect(name, UNVERIFIED, words, certificate, "--file", "libkernel.so")

    def test_signed_but_not_a_verdict(self):
        whole = compact(statement()).encode()
        for name, payload, words in (
                ("garbage after it", whole + b"x", "not an in-toto statement"), ("two of them", whole + whole, "not an in-toto statement"),
                ("nothing", b"null", "not an in-toto statement"), ("a list", b"[" + whole + b"]", "not an in-toto statement"),
                ("a later statement", dict(statement(), _type="https://in-toto.io/Statement/v9"), "unknown version of the statement"),
                ("a verdict of a later version", dict(statement(), predicateType="urn:assay:verdict:v9"), "unknown version `urn:assay:verdict:v9`"),
                ("somebody else's predicate", dict(statement(), predicateType="https://slsa.dev/provenance/v1"), "not a verdict of Assay"),
                ("no subject", {key: value for key, value in statement().items() if key != "subject"}, "`subject` is not a list"),
                ("no verdict", without("verdict"), "lacks `verdict`"), ("no contract", without("contract"), "lacks `contract`"),
                ("trials as text", changed(coverage=dict(statement()["predicate"]["coverage"], trials="144")), "`trials` is not an integer"),
                ("fewer than no trials", changed(coverage=dict(statement()["predicate"]["coverage"], trials=-1)), "`trials` is not an integer"),
                ("a seed too large", compact(statement()).replace('"seed":1', '"seed":1e99').encode(), "`seed` is not an integer")):
            self.expect(name, UNVERIFIED, words, file_of(self.signer.bundle(payload)))
        self.expect("signed as another type", UNVERIFIED, "of type `text/plain`", file_of(self.signer.bundle(statement(), kind="text/plain")))

    def test_duplicate_keys_in_what_is_signed(self):
        """Readers differ in which one they take."""
        whole = compact(statement())
        for name, payload in (("a verdict", whole.replace('"verdict":"pass"', '"verdict":"fail","verdict":"pass"')),
                              ("a subject", whole.replace('"subject":', '"subject":[],"subject":')),
                              ("deep inside", whole.replace('"trials":144', '"trials":1,"trials":144'))):
            self.expect(name, UNVERIFIED, "twice", file_of(self.signer.bundle(payload.encode())))

    def test_keys(self):
        good = file_of(self.bundle)
        self.expect("another key", UNVERIFIED, "signed with another key", good, key=self.other.public)
        forged = file_of(self.other.bundle(statement(), hint=self.signer.hint))
        self.expect("another key's signature under this one's name", UNVERIFIED, "the signature does not match", forged)
        renamed = file_of(self.signer.bundle(statement(), hint=self.other.hint))
        self.expect("this key's signature under another one's name", UNVERIFIED, "names the key", renamed)
        for name, options in (("rsa", "-algorithm RSA -pkeyopt rsa_keygen_bits:2048"), ("p384", "-algorithm EC -pkeyopt ec_paramgen_curve:P-384"),
                              ("secp256k1", "-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1"), ("ed448", "-algorithm ed448")):
            with self.subTest(name):
                self.expect(name, WRONG_USE, "keys of this type are not supported", good, key=Signer(self.folder, name, options).public, lines=None)
        p256 = Signer(self.folder, "p256", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256")
        self.assertEqual(self.verify(file_of(p256.bundle(statement())), key=p256.public)[0], GOOD)
        self.expect("an ECDSA key for an Ed25519 signature", UNVERIFIED, "signed with another key", good, key=p256.public)
        (self.folder / "large.pem").write_bytes(b"x" * (2 << 20))
        for name, key, words in (("the private half", self.signer.private, "this is a private key"), ("no key", self.folder / "kernel.toml", "no public key"),
                                 ("no file", self.folder / "none.pem", "cannot be read"), ("large", self.folder / "large.pem", "too large"),
                                 ("endless", "/dev/zero", "too large")):
            self.expect(name, WRONG_USE, words, good, key=key, lines=None)

    def test_policies_that_are_not_met(self):
        day = datetime.timedelta(days=1)
        for name, made, policy, words in (
                ("too old", changed(timeCreated=time_text(NOW - 100 * day)), "max_age_days = 90", "made 100.0 days ago"),
                ("from the future", changed(timeCreated=time_text(NOW + day)), "max_age_days = 90", "dated in the future"),
                ("no time", changed(timeCreated="yesterday"), "max_age_days = 90", "cannot be read"),
                ("a year of five digits", changed(timeCreated="99999-01-01T00:00:00Z"), "max_age_days = 90", ""),
                ("an older Assay", statement(), 'min_assay = "0.2.0"', "made by Assay 0.1.0"),
                ("a version that is none", changed(assay="latest"), 'min_assay = "0.1.0"', "made by Assay latest"),
                ("a fail", changed(verdict="fail"), "", "the verdict is `fail`"), ("a verdict of no meaning", changed(verdict="PASS"), "", "the verdict is `PASS`"),
                ("not on a GPU", statement(), 'devices = ["cuda"]', "not checked on the device `cuda`"),
                ("few trials", statement(), "min_trials = 1000", "144 trials"), ("no proof", statement(), 'proofs = ["bounds"]', "no proof of `bounds`"),
                ("a smaller dim", statement(), "[dims]\nn = { max = 8192 }", "n was tried from 1 to 4096"),
                ("another contract", statement(), f'contracts = ["{"0" * 64}"]', "which the policy does not list"),
                ("another architecture", statement(), 'architectures = ["sm_100"]', "built for sm_90"), ("no training", statement(), "training = true", "no training run"),
                ("warnings", changed(warnings=["drift"]), "allow_warnings = false", "had warnings: drift")):
            self.expect(name, UNMET, words, file_of(self.signer.bundle(made)), "--file", "libkernel.so", policy=policy)
        # The clocks of two machines differ a little.
        skewed = file_of(self.signer.bundle(changed(timeCreated=time_text(NOW + datetime.timedelta(minutes=20)))))
        self.assertEqual(self.verify(skewed, policy="max_age_days = 90")[0], GOOD)

    def test_policies_that_are_wrong(self):
        good = file_of(self.bundle)
        for policy, words in (("max_age = 90", "no key `max_age`"), ("max_age_days = '90'", "must be a number"), ("max_age_days = -1", "must not be negative"),
                              ("max_age_days = nan", "must not be negative"), ("devices = 'cuda'", "must be a list"), ("devices = ['gpu']", "`gpu` is not a device"),
                              ("devices = []", "`devices` is empty"), ("contracts = []", "`contracts` is empty"), ("proofs = []", "`proofs` is empty"),
                              ("architectures = []", "`architectures` is empty"), ("devices = ['cuda']\ndevices = ['virtual']", "devices"),
                              ("contracts = ['abc']", "SHA-256"), ("proofs = ['everything']", "no obligation `everything`"), ("min_trials = 1.5", "whole number"),
                              ("min_assay = '1'", "must be a version"), ("min_assay = '0.1.0.9'", "must be a version"), ("min_assay = '-1.0.0'", "must be a version"),
                              ("training = 1", "must be true or false"), ("[dims]\nn = 5", "must be a table"), ("[dims]\nn = { least = 5 }", "takes `min` and `max`"),
                              ("[dims]\nn = { min = 9, max = 5 }", "larger than"), ("[dims]\nn = {}", "neither `min` nor `max`"), ("dims", ""), ("\x00", "")):
            self.expect(policy, WRONG_USE, words, good, policy=policy, lines=None)

    def test_text_that_plays_with_the_terminal(self):
        """A name must not print a line of its own, erase one, or turn the direction of the text."""
        evil = "k\n\x1b[2J\x1b[HGOOD  k.assay.json\u202e\u2028\x9b1A"
        for name, certificate in (("a hint, unsigned", file_of(self.other.bundle(statement(), hint=evil))),
                                  ("a version, unsigned", file_of(dict(self.bundle, mediaType="application/vnd.dev.sigstore.bundle" + evil))),
                                  ("a contract's name", file_of(self.signer.bundle(changed(verdict=evil, contract={"name": evil, "sha256": "", "files": []}))))):
            with self.subTest(name):
                status, text, errors = self.verify(certificate)
                self.assertIn(status, (UNMET, UNVERIFIED))
                everything = text + "\n".join(errors)
                for character in "\x1b\u202e\u2028\x9b":
                    self.assertNotIn(character, everything)
                self.assertFalse(any(line.lstrip().startswith("GOOD") for line in everything.splitlines()), everything)
        named = statement()
        named["subject"][0]["name"] = "библиотека-库.so"
        self.assertIn("for библиотека-库.so", "\n".join(self.verify(file_of(self.signer.bundle(named)), "--file", "kernel.toml")[2]))

    def test_files_that_are_not_certificates(self):
        large = self.folder / "k.assay.json"
        with open(large, "wb") as file:
            file.truncate(1 << 30)
        self.expect("a gigabyte", UNVERIFIED, "too large")
        large.unlink()
        self.expect("no file", UNVERIFIED, "cannot be read: No such file")
        large.mkdir()
        self.expect("a folder", UNVERIFIED, "cannot be read: Is a directory")
        large.rmdir()
        os.symlink(large.name, large)
        self.expect("a link to itself", UNVERIFIED, "cannot be read: Too many levels")
        large.unlink()


if __name__ == "__main__":
    unittest.main()
