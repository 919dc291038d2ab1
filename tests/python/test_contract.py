"""Contracts as objects: what is written is what was read."""

import pathlib
import sys
import unittest

from support import ROOT, is_installed
from assay.contract import (
    Case,
    Contract,
    ContractError,
    DerivedDim,
    Dim,
    Inputs,
    Kernel,
    Reference,
    Require,
    Scalar,
    Tensor,
    Monitor,
    Workload,
    safe_name,
)

WHOLE = Contract(
    title='a "title" with \\ and ü',
    only_listed_shapes=True,
    kernel=Kernel(python="answer.py:run", args=["x", "w", "eps", "N"], returns="void"),
    dims={"N": Dim(8, 8192, 8, "i64"), "H": 128, "rows": Dim(1, 4)},
    shapes=[{"N": 4096, "rows": 2}, {"N": 8, "rows": 1}],
    tensors={
        "x": Tensor("bf16", ["rows", "N"], values="activations"),
        "w": Tensor("f32", ["2 * N", 3], align=16),
        "y": Tensor("bf16", ["rows", "N"], role="out", may_alias="x"),
    },
    scalars={
        "eps": Scalar("f32", values=[1e-6, 1e-5]),
        "scale": Scalar("f32", value=float("inf")),
        "p": Scalar("f64", range=[-1.0, 2.5]),
    },
    reference=Reference(torch="reference.py:run", accumulate="f32", math="fast"),
    inputs=Inputs(torch="inputs.py:make"),
    require=Require(deterministic=True, batch_invariant=["rows"], nonfinite="ignore", rtol=1e-3),
    workload=Workload("swiglu", {"h[t, 0, j]": "gate[t, j]", "out": "y"}, {"N": "T * F", "B": 1}, {"epsilon": "eps"}),
    monitor=Monitor(every=10, trusted={"source": "naive.cu", "entry": "run"}, on_alarm="reference", arl=1e6),
    notes=["one note", "another: two words"],
)


@unittest.skipUnless(sys.version_info >= (3, 11) or is_installed("tomli"), "tomli is not installed")
class ContractTest(unittest.TestCase):
    def test_round_trip(self):
        self.assertEqual(Contract.parse(WHOLE.to_toml()), WHOLE)

    def test_round_trip_of_texts(self):
        for text in (
            "one line",
            'two\nlines with "quotes" and """three"""',
            "a tab\tand \\ and \x07\n",
            "\n",
            'ends in quotes\n"""',
        ):
            contract = Contract(Kernel(python="a.py:f"), Reference(formula=text))
            self.assertEqual(Contract.parse(contract.to_toml()).reference.formula, text)

    def test_contracts_of_the_tree(self):
        files = sorted(pathlib.Path(ROOT, "corpus").rglob("*.toml")) + sorted(
            pathlib.Path(ROOT, "examples").rglob("*.toml")
        )
        self.assertGreater(len(files), 20)
        for file in files:
            with self.subTest(file=str(file)):
                if "[kernel]" in file.read_text():
                    contract = Contract.load(file)
                    self.assertEqual(Contract.parse(contract.to_toml()), contract)

    def test_relations_layouts_and_cases(self):
        text = (
            '[kernel]\nargs = ["x"]\npython = "a.py:f"\n\n[dims]\nG = { min = 1, max = 8 }\nC = "4 * G"\n'
            'L = { value = "C * G", type = "i64" }\nrequire = ["G <= C"]\n\n[tensors.x]\ndtype = "e2m1"\n'
            'shape = ["G", "C"]\nstrides = ["L", 1]\noptional = true\n\n[reference]\nformula = "y[] = 1"\n\n'
            '[[case]]\nwhen = "G == 2"\nformula = "y[] = 2"\n'
        )
        contract = Contract.parse(text)
        self.assertEqual(contract.to_toml(), text)
        self.assertEqual(contract.dims["L"], DerivedDim("C * G", "i64"))
        self.assertEqual(contract.relations, ["G <= C"])
        self.assertEqual(contract.case, [Case("G == 2", "y[] = 2")])
        with self.assertRaisesRegex(ContractError, r"\[\[case\]\] needs the key `formula`"):
            Contract.parse('[kernel]\n[reference]\n[[case]]\nwhen = "G == 2"\n')

    def test_defaults_are_not_written(self):
        text = Contract(
            Kernel(python="a.py:f", args=["x"]), Reference(torch="r.py:f"), {"x": Tensor("f32", [1])}
        ).to_toml()
        self.assertEqual(
            text,
            '[kernel]\nargs = ["x"]\npython = "a.py:f"\n\n[tensors.x]\ndtype = "f32"\nshape = [1]\n\n'
            '[reference]\ntorch = "r.py:f"\n',
        )

    def test_notes_are_comments_at_the_top(self):
        contract = Contract(Kernel(), Reference(), notes=["of two\nlines", "second"], title="t")
        self.assertEqual(contract.to_toml().splitlines()[:3], ["# of two lines", "# second", 'title = "t"'])
        parsed = Contract.parse("# kept\n#too\n\n# not kept\n[kernel]\n# nor this\n[reference]\n")
        self.assertEqual(parsed.notes, ["kept", "too"])

    def test_a_range_of_one_value_is_a_constant(self):
        self.assertEqual(Dim.between(4, 4, 2), 4)
        self.assertEqual(Dim.between(8, 4096, 8), Dim(8, 4096, 8))

    def test_a_range_beyond_32_bits_says_so(self):
        self.assertEqual(Dim.between(1, 2**31 - 1).type, "i32")
        self.assertEqual(Dim.between(1, 2**31).type, "i64")

    def test_scalars(self):
        self.assertEqual(Scalar.among("f32", [1e-6]), Scalar("f32", value=1e-6))
        self.assertEqual(Scalar.among("f32", [1e-6, 1]), Scalar("f32", values=[1e-6, 1]))
        text = Contract(Kernel(), Reference(), scalars={"flag": Scalar.among("bool", [True])}).to_toml()
        self.assertIn("value = 1\n", text)

    def test_names_that_a_contract_can_hold(self):
        self.assertEqual(safe_name("input"), "input")
        self.assertEqual(safe_name("inf"), "inf_")
        self.assertEqual(safe_name("max"), "max")
        self.assertEqual(safe_name("max", dim=True), "max_")
        self.assertEqual(safe_name("f16", dim=True), "f16_")
        self.assertEqual(safe_name("N", ["N"]), "N_")
        self.assertEqual(safe_name("2d.weight"), "_2d_weight")

    def test_mistakes_are_named(self):
        for text, message in (
            ("[kernel]\n", r"needs a table \[reference\]"),
            ("[kernel]\nargz = 1\n[reference]\n", r"\[kernel\] has no key `argz`; did you mean `args`\?"),
            ("[kernel]\n[reference]\n[tensors.x]\ndtype = 'f32'\n", r"\[tensors.x\] needs the key `shape`"),
            ("[kernel\n", "line 1"),
            ("bogus = 1\n[kernel]\n[reference]\n", "the contract has no key `bogus`"),
            ("notes = []\n[kernel]\n[reference]\n", "the contract has no key `notes`"),
        ):
            with self.assertRaisesRegex(ContractError, message):
                Contract.parse(text)


if __name__ == "__main__":
    unittest.main()
