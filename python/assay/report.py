"""What a check says: the verdict, the findings with their evidence, and what was tried.

A `Report` is the JSON report of the program (docs/reports.md) as an object. It is true if the verdict is
`pass`:

    report = assay.check(...)
    if not report:
        print(report)                    # as text
        for finding in report.findings:
            print(finding.kind, finding.where, finding.message)

In a notebook, a report as the last value of a cell is shown with the source lines of its findings.
"""

import html
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List


@dataclass(frozen=True)
class Where:
    """A place in source code. `file` is empty and `line` 0 where they are not known."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return "%s:%d" % (self.file, self.line) if self.line else self.file

    def __bool__(self) -> bool:
        return bool(self.file)


@dataclass(frozen=True)
class Finding:
    """A proven or measured defect."""

    kind: str  # "out-of-bounds", "wrong-result", …: docs/findings.md explains each
    severity: str  # "error", "warning" or "note"
    message: str
    where: Where = Where()
    evidence: Dict[str, Any] = field(default_factory=dict)
    reproduce: str = ""  # the command that shows it again

    @staticmethod
    def of(data: Dict[str, Any]) -> "Finding":
        """A finding from its JSON form."""
        where = data.get("where") or {}
        return Finding(
            str(data.get("kind", "")),
            str(data.get("severity", "error")),
            str(data.get("message", "")),
            Where(str(where.get("file", "")), int(where.get("line", 0))),
            dict(data.get("evidence") or {}),
            str(data.get("reproduce", "")),
        )

    def __str__(self) -> str:
        place = "%s: " % self.where if self.where else ""
        return "%s%s: %s: %s" % (place, self.severity, self.kind, self.message)


class FindingsError(AssertionError):
    """A check did not pass. `report` says why."""

    def __init__(self, report: "Report"):
        super().__init__(str(report))
        self.report = report


class Report:
    """The report of a check. `data` is its JSON form, from which everything else is read; `text` is what the
    program printed, with source lines and fixes, where it ran in this process's name."""

    def __init__(self, data: Dict[str, Any], text: str = ""):
        self.data = data
        self.text = text.strip("\n")

    @classmethod
    def load(cls, path) -> "Report":
        """Reads a report that `assay check --json FILE` wrote."""
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    @classmethod
    def made_here(cls, verdict: str, reason: str) -> "Report":
        """The report of a check that did not get as far as a report of its own."""
        return cls(
            {
                "assay": "1",
                "verdict": verdict,
                "findings": [],
                "notes": [],
                "coverage": {},
                "inconclusive": [],
                "reason": reason,
            }
        )

    @property
    def verdict(self) -> str:
        """ "pass", "fail" or "inconclusive"."""
        return self.data.get("verdict", "inconclusive")

    @property
    def findings(self) -> List[Finding]:
        """Errors and warnings, the most important first. One error makes the verdict `fail`."""
        return [Finding.of(data) for data in self.data.get("findings", [])]

    @property
    def notes(self) -> List[Finding]:
        """Where to look; they do not change the verdict."""
        return [Finding.of(data) for data in self.data.get("notes", [])]

    @property
    def inconclusive(self) -> List[str]:
        """What could not be checked."""
        return list(self.data.get("inconclusive", []))

    @property
    def coverage(self) -> Dict[str, Any]:
        """What was tried: docs/reports.md lists the fields."""
        return self.data.get("coverage", {})

    @property
    def title(self) -> str:
        return self.data.get("title") or self.data.get("contract", "")

    @property
    def seconds(self) -> float:
        return float(self.data.get("seconds", 0))

    @property
    def reason(self) -> str:
        """One line that says why the verdict is not `pass`; empty if it is."""
        if self.data.get("reason"):
            return self.data["reason"]
        if self.verdict == "fail":
            errors = [str(finding) for finding in self.findings if finding.severity == "error"]
            return errors[0].split("\n")[0] if errors else ""
        return self.inconclusive[0] if self.verdict == "inconclusive" and self.inconclusive else ""

    def raise_for_findings(self) -> "Report":
        """Raises FindingsError if the verdict is `fail`; returns the report otherwise, so that calls can be
        chained.

        An inconclusive check raises nothing: assert the report itself to require a pass.
        """
        if self.verdict == "fail":
            raise FindingsError(self)
        return self

    def __bool__(self) -> bool:
        return self.verdict == "pass"

    def __repr__(self) -> str:
        return "<assay.Report %s, %d findings>" % (self.verdict, len(self.findings))

    def __str__(self) -> str:
        if self.text:
            return self.text
        lines = ["%s: %s" % (self.title, self.verdict) if self.title else self.verdict]
        for finding in self.findings + self.notes:
            lines.append(str(finding))
            lines += ["    %s" % line for line in _details(finding)]
        lines += ["not checked: %s" % reason for reason in self.inconclusive]
        if not self.findings and self.data.get("reason"):
            lines.append(self.data["reason"])
        summary = _coverage_line(self.coverage)
        return "\n".join(lines + ([summary] if summary else []))

    def _repr_html_(self) -> str:
        """For notebooks: the verdict, each finding with its source line, and what was tried."""
        rest = self.inconclusive + [
            text for text in (self.data.get("reason"), _coverage_line(self.coverage)) if text
        ]
        return "<div><p><strong style='color:%s'>%s</strong> %s</p>%s%s</div>" % (
            _COLORS.get(self.verdict, _COLORS["warning"]),
            html.escape(self.verdict),
            html.escape(self.title),
            "".join(_html_finding(finding) for finding in self.findings + self.notes),
            "".join("<p>%s</p>" % html.escape(text) for text in rest),
        )


# Of verdicts and severities; legible on light and dark pages.
_COLORS = {"pass": "#1a7f37", "fail": "#cf222e", "error": "#cf222e", "warning": "#9a6700", "note": "#6e7781"}
LINES_AROUND = 1  # of a finding's source line


def _details(finding: Finding) -> List[str]:
    """What helps to see a finding for oneself: the smallest case, and the command that shows it."""
    smallest = finding.evidence.get("smallest")
    return (["smallest case: %s" % smallest] if smallest else []) + (
        [finding.reproduce] if finding.reproduce else []
    )


def _excerpt(where: Where) -> str:
    """The source line of a finding with its neighbours; empty where the file is not there."""
    try:
        with open(where.file, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except (OSError, ValueError):
        return ""
    numbers = range(max(1, where.line - LINES_AROUND), min(len(lines), where.line + LINES_AROUND) + 1)
    return "\n".join(
        "%s %5d | %s" % (">" if number == where.line else " ", number, lines[number - 1]) for number in numbers
    )


def _html_finding(finding: Finding) -> str:
    excerpt = _excerpt(finding.where) if finding.where.line else ""
    return (
        "<div style='border-left:3px solid %s;padding-left:0.8em;margin:0.8em 0;text-align:left'>"
        "<strong>%s</strong> <code>%s</code><br>%s%s%s</div>"
    ) % (
        _COLORS.get(finding.severity, _COLORS["error"]),
        html.escape(finding.kind),
        html.escape(str(finding.where)),
        html.escape(finding.message),
        "<pre style='margin:0.4em 0'>%s</pre>" % html.escape(excerpt) if excerpt else "<br>",
        "<br>".join("<code>%s</code>" % html.escape(line) for line in _details(finding)),
    )


def _coverage_line(coverage: Dict[str, Any]) -> str:
    if not coverage.get("trials"):
        return ""
    counts = (("trial", coverage["trials"]), ("shape", coverage.get("shapes", 0)))
    line = ", ".join("%d %s%s" % (count, what, "" if count == 1 else "s") for what, count in counts)
    if coverage.get("planned"):
        line += ", %d of %d planned" % (coverage.get("planned_run", 0), coverage["planned"])
    return line
