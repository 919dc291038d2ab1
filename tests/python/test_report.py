"""The report as an object, its text and its HTML."""

import tempfile
import unittest

import support  # noqa: F401: finds the package
from assay.report import Finding, FindingsError, Report, Where

FAILED = {
    "assay": "1",
    "verdict": "fail",
    "title": "softmax <b>",
    "seconds": 1.5,
    "findings": [
        {
            "kind": "out-of-bounds",
            "severity": "error",
            "message": "reads 4 bytes past <x> & more",
            "where": {"file": "softmax.py", "line": 12},
            "evidence": {"family": "access", "smallest": "rows 1, cols 3"},
            "reproduce": "assay replay report.json",
        },
        {
            "kind": "unwaited-work",
            "severity": "warning",
            "message": "ended early",
            "where": {"file": "", "line": 0},
            "evidence": {"family": "launch"},
            "reproduce": "",
        },
    ],
    "notes": [],
    "inconclusive": [],
    "coverage": {"trials": 7, "shapes": 3, "planned": 20, "planned_run": 7},
}


class ReportTest(unittest.TestCase):
    def test_findings_have_types(self):
        finding = Report(FAILED).findings[0]
        self.assertEqual(
            finding,
            Finding(
                "out-of-bounds",
                "error",
                "reads 4 bytes past <x> & more",
                Where("softmax.py", 12),
                {"family": "access", "smallest": "rows 1, cols 3"},
                "assay replay report.json",
            ),
        )
        self.assertFalse(Report(FAILED).findings[1].where)

    def test_only_a_pass_is_true(self):
        self.assertFalse(Report(FAILED))
        self.assertFalse(Report({"verdict": "inconclusive"}))
        self.assertTrue(Report({"verdict": "pass"}))

    def test_the_reason_is_one_line(self):
        finding = {"kind": "wrong-result", "severity": "error", "message": "out is wrong\n100 % of it at line 3"}
        self.assertEqual(Report({"verdict": "fail", "findings": [finding]}).reason, "error: wrong-result: out is wrong")
        self.assertEqual(Report({"verdict": "pass"}).reason, "")

    def test_raises_for_a_failure_and_nothing_else(self):
        with self.assertRaises(FindingsError) as caught:
            Report(FAILED).raise_for_findings()
        self.assertIn("softmax.py:12: error: out-of-bounds", str(caught.exception))
        for verdict in ("pass", "inconclusive"):
            self.assertEqual(Report({"verdict": verdict}).raise_for_findings().verdict, verdict)

    def test_text_says_where_and_how_to_repeat(self):
        text = str(Report(FAILED))
        for part in (
            "softmax.py:12: error: out-of-bounds: reads 4 bytes",
            "smallest case: rows 1, cols 3",
            "assay replay report.json",
            "7 trials, 3 shapes, 7 of 20 planned",
        ):
            self.assertIn(part, text)

    def test_the_programs_own_text_comes_first(self):
        self.assertEqual(str(Report(FAILED, "as on a terminal\n")), "as on a terminal")

    def test_counts_of_one(self):
        once = Report({"verdict": "pass", "coverage": {"trials": 1, "shapes": 1}})
        self.assertIn("1 trial, 1 shape", str(once))

    def test_html_shows_the_source_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as source:
            source.write("first\nsecond < third\nfourth\n")
            source.flush()
            finding = dict(FAILED["findings"][0], where={"file": source.name, "line": 2})
            page = Report(dict(FAILED, findings=[finding]))._repr_html_()
        self.assertIn("&gt;     2 | second &lt; third", page)
        self.assertIn("      3 | fourth", page)
        self.assertNotIn("<pre", Report(dict(FAILED, findings=[finding]))._repr_html_())  # the file is gone

    def test_html_escapes_everything(self):
        page = Report(FAILED)._repr_html_()
        self.assertIn("softmax &lt;b&gt;", page)
        self.assertIn("past &lt;x&gt; &amp; more", page)
        self.assertNotIn("<x>", page)
        self.assertNotIn("<b>", page)

    def test_reason_is_one_line(self):
        self.assertEqual(
            Report(FAILED).reason, "softmax.py:12: error: out-of-bounds: reads 4 bytes past <x> & more"
        )
        self.assertEqual(Report({"verdict": "pass"}).reason, "")
        self.assertEqual(Report({"verdict": "inconclusive", "inconclusive": ["no time"]}).reason, "no time")
        self.assertEqual(Report.made_here("fail", "line 3: invalid syntax").reason, "line 3: invalid syntax")


if __name__ == "__main__":
    unittest.main()
