"""`pytest --assay`: an existing test suite with torch and Triton on the virtual GPU, with all checks on.

The CUDA libraries of a process are chosen when it starts, so `--assay` first starts pytest again under `assay
run`, before any conftest.py can import torch. In that process the virtual GPU appends an event for each
launch and each finding to a file. After each phase of a test (setup, call, teardown) the plugin waits for the
device, reads the new events and attributes them to that phase: an error makes it fail, with the finding's
text in the report, in JUnit's properties and in `--assay-json`.

A wrong access is reported and skipped, and the device continues, so the next test starts on a healthy one.

    @pytest.mark.assay(checks="memory,races")     # only what these checks find fails this test
    @pytest.mark.assay(allow=["data-race"])       # this kind of finding does not
    def test_softmax(assay_check):                # assay.check: the test fails unless the check passes
        assay_check(softmax, reference=torch_softmax, shapes={"x": ("rows", "cols")})
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Tuple

import pytest

from assay import paths
from assay.report import Finding

# Leaks and work that nobody waits for are about programs, not about tests: torch frees what it caches at the
# end.
DEFAULT_CHECKS = "memory,init,races,streams,sync"

KINDS_OF_CHECKS = {
    "memory": {"out-of-bounds", "misaligned", "clobbered-input", "unwritten-output"},
    "init": {"uninitialized"},
    "races": {"data-race"},
    "streams": {"data-race", "stream-order"},
    "sync": {"barrier-divergence", "deadlock"},
    "launches": {"launch-failure", "unwaited-work", "leak"},
}


def pytest_addoption(parser):
    group = parser.getgroup("assay", "GPU tests on the virtual GPU")
    group.addoption(
        "--assay", action="store_true", help="run the tests on the virtual GPU; findings fail them"
    )
    group.addoption(
        "--assay-check",
        metavar="LIST",
        default=DEFAULT_CHECKS,
        help="checks that are on, separated by commas (default: %s)" % DEFAULT_CHECKS,
    )
    group.addoption("--assay-json", metavar="FILE", help="write the findings of all tests to this file")
    group.addoption(
        "--assay-budget",
        metavar="SECONDS",
        type=float,
        help="seconds of trials for a check of the fixture assay_check (default: as for assay.check)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    options = early_config.known_args_namespace
    if not options.assay:
        return
    if "ASSAY_SETTINGS" not in os.environ:
        _restart(early_config, options.assay_check)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:  # workers of pytest-xdist inherit the settings; each has a file of its own
        settings = json.loads(os.environ["ASSAY_SETTINGS"])
        settings["events"] += "-" + worker
        os.environ["ASSAY_SETTINGS"] = json.dumps(settings)


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "assay(checks=None, allow=(), budget=None): which findings of the virtual GPU fail this "
        "test, and the seconds of its assay_check",
    )
    if config.getoption("--assay"):
        settings = json.loads(os.environ["ASSAY_SETTINGS"])
        config.pluginmanager.register(
            VirtualGpu(Events(settings["events"]), config.getoption("--assay-json")), "assay-gpu"
        )


@pytest.fixture
def assay_check(request):
    """`assay.check`; the test fails unless the check passes. The marker's budget, or --assay-budget, is the
    default."""
    from assay.checking import check

    marker = request.node.get_closest_marker("assay")
    budget = (marker.kwargs.get("budget") if marker else None) or request.config.getoption("--assay-budget")

    def checked(function, **options):
        options.setdefault("budget", budget)
        report = check(function, **options)
        _add_properties(request.node.user_properties, report.findings)
        if not report:
            pytest.fail(str(report), pytrace=False)
        return report

    return checked


class Events:
    """The event file of this process, read as it grows."""

    def __init__(self, path: str):
        self.path = path
        self._offset = 0
        self._modules: List[bytes] = []  # files that places in host code refer to, for the whole process

    def new_findings(self) -> Tuple[List[Finding], str]:
        """Findings since the last call, and their text as `assay run` prints it."""
        lines = self._new_lines()
        self._modules += [line for line in lines if b'"event":"module"' in line]
        if not any(b'"event":"finding"' in line or b'"event":"fault"' in line for line in lines):
            return [], ""
        return _describe(self._modules + [line for line in lines if line not in self._modules])

    def _new_lines(self) -> List[bytes]:
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return whole.splitlines(keepends=True)


class VirtualGpu:
    """The hooks of a session that runs on the virtual GPU."""

    def __init__(self, events: Events, json_path: str):
        self._events = events
        self._json_path = json_path
        self._tests: List[Dict[str, Any]] = []  # with findings
        self._outside = ""  # the text of findings outside tests

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        wait_for_device()
        findings, text = self._events.new_findings()
        if not findings:
            return
        report.assay_findings = [_as_json(finding) for finding in findings]
        _add_properties(item.user_properties, findings)
        _add_properties(report.user_properties, findings)
        if (
            any(finding.severity == "error" and _counts(item, finding) for finding in findings)
            and report.outcome == "passed"
        ):
            report.outcome = "failed"
            report.longrepr = text
        else:
            report.sections.append(("Assay", text))

    def pytest_runtest_logreport(self, report):
        findings = getattr(report, "assay_findings", [])
        if findings:
            self._tests.append(
                {"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "findings": findings}
            )

    def pytest_collection_finish(self, session):
        self._look_outside_tests(session, "collection")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session):
        self._look_outside_tests(session, "end of session")
        if self._outside and session.exitstatus == 0:
            session.exitstatus = 1
        if self._json_path and not os.environ.get("PYTEST_XDIST_WORKER"):
            findings = [finding for test in self._tests for finding in test["findings"]]
            failed = any(test["outcome"] == "failed" for test in self._tests)
            with open(self._json_path, "w", encoding="utf-8") as file:
                json.dump(
                    {
                        "assay": "1",
                        "verdict": "fail" if failed else "pass",
                        "findings": findings,
                        "tests": self._tests,
                    },
                    file,
                    indent=2,
                )
                file.write("\n")

    def pytest_terminal_summary(self, terminalreporter):
        if self._outside:
            terminalreporter.section("Assay: findings outside tests")
            terminalreporter.write_line(self._outside)
        kinds: Dict[str, int] = {}
        for test in self._tests:
            for finding in test["findings"]:
                kinds[finding["kind"]] = kinds.get(finding["kind"], 0) + 1
        if kinds:
            terminalreporter.write_line(
                "Assay: " + ", ".join("%d %s" % (count, kind) for kind, count in sorted(kinds.items()))
            )

    def _look_outside_tests(self, session, when: str) -> None:
        wait_for_device()
        findings, text = self._events.new_findings()
        if any(finding.severity == "error" for finding in findings):
            self._outside += text + "\n"
            self._tests.append(
                {
                    "test": "",
                    "phase": when,
                    "outcome": "failed",
                    "findings": [_as_json(finding) for finding in findings],
                }
            )


def _restart(config, checks: str) -> None:
    """Starts this pytest again on the virtual GPU. Does not return."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.stop_global_capturing()  # it has redirected the terminal already
    try:
        program = paths.program()
    except FileNotFoundError as error:
        raise pytest.UsageError("--assay: %s" % error) from None
    # Suppressions, even none, let the process go on after a wrong access.
    command = [
        program,
        "run",
        "--quiet",
        "--check=" + checks,
        "--suppressions=" + os.devnull,
        "--",
        sys.executable,
    ]
    is_script = os.path.basename(sys.argv[0]) in ("pytest", "py.test")
    command += [sys.argv[0]] if is_script else ["-m", "pytest"]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, command + [str(argument) for argument in config.invocation_params.args])


def wait_for_device() -> None:
    """Lets the device finish what the test has started; what it found is in the event file after that."""
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_initialized():
        return
    try:
        ctypes.CDLL("libcudart.so.13", mode=os.RTLD_NOLOAD).cudaDeviceSynchronize()
    except OSError:  # no CUDA in this process
        pass


def _describe(events: List[bytes]) -> Tuple[List[Finding], str]:
    """Findings and their text from lines of the event file. The words are the program's."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        source, target = os.path.join(folder, "events"), os.path.join(folder, "findings.json")
        with open(source, "wb") as file:
            file.writelines(events)
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        ended = subprocess.run(
            [paths.program(), "events", "--no-launches", "--json", target, source],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        text = ended.stderr.decode("utf-8", "replace")
        if ended.returncode not in (0, 1):
            raise RuntimeError("assay events failed: %s" % text.strip())
        with open(target, encoding="utf-8") as file:
            data = json.load(file)
    text = re.sub("(?m)^assay: ", "", text).rstrip("\n")
    return [Finding.of(one) for one in data["findings"]], text


def _counts(item, finding: Finding) -> bool:
    """Whether a finding fails this test, by its markers."""
    for marker in item.iter_markers("assay"):
        if finding.kind in marker.kwargs.get("allow", ()):
            return False
        checks = marker.kwargs.get("checks")
        if checks is not None:
            names = checks.split(",") if isinstance(checks, str) else list(checks)
            unknown = set(names) - set(KINDS_OF_CHECKS) - {"none"}
            if unknown:
                raise pytest.UsageError(
                    "@pytest.mark.assay: there is no check `%s`; there are %s and none"
                    % (sorted(unknown)[0], ", ".join(KINDS_OF_CHECKS))
                )
            if not any(finding.kind in KINDS_OF_CHECKS.get(name, ()) for name in names):
                return False
    return True


def _add_properties(properties: List[Tuple[str, object]], findings: List[Finding]) -> None:
    for finding in findings:
        entry = (
            "assay." + finding.kind,
            "%s%s" % ("%s: " % finding.where if finding.where else "", finding.message),
        )
        if entry not in properties:
            properties.append(entry)


def _as_json(finding: Finding) -> Dict[str, Any]:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "message": finding.message,
        "where": {"file": finding.where.file, "line": finding.where.line},
        "evidence": finding.evidence,
    }
