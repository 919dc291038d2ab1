"""Contracts as objects: what is written is what was read."""

import pathlib
import sys
import unittest

from support import ROOT, is_installed
from assay.contract import Contract, ContractError, Dim, Inputs, Kernel, Reference, Require, Scalar, Tensor

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

    def test_defaults_are_not_written(self):
        text = Contract(
            Kernel(python="a.py:f", args=["x"]), Reference(torch="r.py:f"), {"x": Tensor("f32", [1])}
        ).to_toml()
        self.assertEqual(
            text,
            '[kernel]\nargs = ["x"]\npython = "a.py:f"\n\n[tensors.x]\ndtype = "f32"\nshape = [1]\n\n'
            '[reference]\ntorch = "r.py:f"\n',
        )

    def test_mistakes_are_named(self):
        for text, message in (
            ("[kernel]\n", r"needs a table \[reference\]"),
            ("[kernel]\nargz = 1\n[reference]\n", r"\[kernel\] has no key `argz`; did you mean `args`\?"),
            ("[kernel]\n[reference]\n[tensors.x]\ndtype = 'f32'\n", r"\[tensors.x\] needs the key `shape`"),
            ("[kernel\n", "line 1"),
            ("bogus = 1\n[kernel]\n[reference]\n", "the contract has no key `bogus`"),
        ):
            with self.assertRaisesRegex(ContractError, message):
                Contract.parse(text)


if __name__ == "__main__":
    unittest.main()
