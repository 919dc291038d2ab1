"""assay.check: from a call to a contract, and from the program's answer to a report."""

import json
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

from support import needs_torch
import assay
from assay import function_contract
from assay.contract import Dim, Scalar, Tensor


class Example:
    """As much of a tensor as a check looks at."""

    def __init__(self, shape, dtype="torch.float32", low=0, high=0):
        self.shape, self.dtype, self._low, self._high = shape, dtype, low, high

    def min(self):
        return self._low

    def max(self):
        return self._high


def norm(x, w, eps, *, rows=1):
    return x


def norm_reference(x, w, eps):
    return x


def in_place(x, out):
    out[:] = x


def gather(table, index):
    return table[index]


def contract_of(function, reference=norm_reference, outputs=None, **options):
    given = dict(inputs=None, shapes={}, dtypes=None, dims={}, scalars={}, values={})
    given.update(options)
    outputs = outputs if outputs is not None else {"y": Tensor("f32", ["rows", "cols"])}
    with tempfile.TemporaryDirectory() as folder:
        call = function_contract.FunctionCall(
            function,
            reference,
            given["inputs"],
            given["shapes"],
            given["dtypes"],
            given["dims"],
            outputs,
            given["scalars"],
            given["values"],
            globals(),
        )
        contract = call.contract(pathlib.Path(folder))
        files = {file.name: file.read_text() for file in pathlib.Path(folder).glob("*/*.py")}
    return contract, files


class ContractOfACallTest(unittest.TestCase):
    def test_shapes_and_scalars(self):
        contract, files = contract_of(
            norm,
            shapes={"x": ("rows", "cols"), "w": ("cols",)},
            dtypes={"x": "torch.bfloat16", "w": "f32"},
            scalars={"eps": [1e-5, 1e-6]},
            dims={"cols": range(8, 8193, 8), "rows": (1, 64)},
            values={"x": "activations"},
        )
        self.assertEqual(contract.dims, {"cols": Dim(8, 8192, 8), "rows": Dim(1, 64)})
        self.assertEqual(contract.tensors["x"], Tensor("bf16", ["rows", "cols"], values="activations"))
        self.assertEqual(contract.tensors["y"], Tensor("f32", ["rows", "cols"], "out"))
        self.assertEqual(contract.scalars["eps"], Scalar("f64", values=[1e-5, 1e-6]))
        self.assertEqual(contract.kernel.args, ["x", "w", "eps", "rows"])
        self.assertIn("return function(x, w, eps, rows=rows)", files["assay_subject.py"])
        self.assertIn("return function(x=x, w=w, eps=eps)", files["assay_reference.py"])

    def test_examples(self):
        contract, _ = contract_of(
            norm, inputs=(Example((4, 8), "torch.float16"), Example((8,)), 1e-5), shapes={"x": ("rows", 8)}
        )
        self.assertEqual(contract.tensors["x"], Tensor("f16", ["rows", 8]))
        self.assertEqual(contract.tensors["w"], Tensor("f32", [8]))
        self.assertEqual(contract.scalars["eps"], Scalar("f64", value=1e-5))
        self.assertEqual(contract.dims["rows"], function_contract.DEFAULT_RANGE)

    def test_integers_are_bounded_by_the_example(self):
        contract, _ = contract_of(
            gather,
            gather,
            inputs={"table": Example((9, 3)), "index": Example((5,), "torch.int64", 0, 8)},
            outputs={"y": Tensor("f32", [5, 3])},
        )
        self.assertEqual(contract.tensors["index"].values, "integers(0, 8)")

    def test_outputs_in_place(self):
        contract, files = contract_of(
            in_place, lambda x: x, shapes={"x": ("N",)}, outputs={"out": Tensor("f32", ["N"])}
        )
        self.assertEqual((contract.kernel.returns, contract.kernel.args), ("void", ["x", "out"]))
        self.assertEqual(contract.tensors["out"].role, "out")
        self.assertIn("return function(x=x)", files["assay_reference.py"])

    def test_defaults_are_left_alone(self):
        contract, _ = contract_of(norm, shapes={"x": (2, "cols"), "w": ("cols",)}, scalars={"eps": 1})
        self.assertEqual(contract.kernel.args, ["x", "w", "eps"])

    def test_what_follows_a_default_is_passed_by_name(self):
        def function(x, eps=1e-5, scale=1.0):
            return x

        _, files = contract_of(function, shapes={"x": ("rows", "cols")}, scalars={"scale": 2.0})
        self.assertIn("return function(x, scale=scale)", files["assay_subject.py"])

    def test_updated_inputs(self):
        given = Tensor("f32", ["N"], role="inout")
        contract, files = contract_of(lambda x: None, lambda x: x + 1, inputs={"x": given}, outputs={})
        self.assertEqual((contract.kernel.returns, contract.tensors), ("void", {"x": given}))
        self.assertIn("return function(x=x)", files["assay_reference.py"])

    def test_mistakes_are_one_line(self):
        for options, message in (
            (dict(shapes={"x": (1,)}), "nothing is known of the parameter `w` of norm"),
            (dict(shapes={"x": (1,), "w": (1,)}, scalars={"eps": "big"}), "a scalar is a number"),
            (
                dict(shapes={"x": (1,), "w": (1,)}, scalars={"eps": 1}, dims={"N": "big"}),
                r"dims\['N'\] is \(min, max\)",
            ),
            (dict(shapes={"x": (1,), "w": (1,)}, scalars={"eps": 1}, dtypes="f12"), "there is no dtype f12"),
            (
                dict(shapes={"x": (1,), "w": (1,), "z": (1,)}, scalars={"eps": 1}),
                "shapes= names `z`, but norm has the parameters x, w, eps, rows",
            ),
            (dict(inputs={"z": 1}), "norm has no parameter `z`; it has x, w, eps, rows"),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(assay.AssayError, message):
                contract_of(norm, **options)

    def test_expressions(self):
        self.assertEqual(function_contract.evaluate("ceil_div(N, 4) * 2 + N / 3 - min(N, 2)", {"N": 10}), 7)
        for wrong in ("M", "N +", "N.real", "__import__('os')"):
            with self.assertRaises(assay.AssayError):
                function_contract.evaluate(wrong, {"N": 10})


@needs_torch
class OutputsOfAReferenceTest(unittest.TestCase):
    def expected(self, function, reference, shapes, **options):
        contract, _ = contract_of(function, reference, outputs={}, shapes=shapes, **options)
        return {
            name: (tensor.dtype, tensor.shape)
            for name, tensor in contract.tensors.items()
            if tensor.role == "out"
        }

    def test_extents_follow_from_dims(self):
        import torch

        self.assertEqual(
            self.expected(
                lambda a, b: a, lambda a, b: a @ b, {"a": ("M", "K"), "b": ("K", "N")}, dtypes="bf16"
            ),
            {"out": ("bf16", ["M", "N"])},
        )
        self.assertEqual(
            self.expected(
                lambda x: x,
                lambda x: (x.flatten(), x.float().sum(0), torch.cat([x, x], 1)),
                {"x": ("M", "N")},
                dtypes="f16",
            ),
            {"out0": ("f16", ["M * N"]), "out1": ("f32", ["N"]), "out2": ("f16", ["M", "N * 2"])},
        )

    def test_names_of_a_dict(self):
        self.assertEqual(
            self.expected(lambda x: x, lambda x: {"largest": x.max(1).values}, {"x": (3, "N")}),
            {"largest": ("f32", [3])},
        )

    def test_a_reference_that_raises(self):
        with self.assertRaisesRegex(
            assay.AssayError, "the reference cannot be called with these shapes and dtypes: RuntimeError"
        ):
            self.expected(lambda a, b: a, lambda a, b: a @ b, {"a": ("M", 3), "b": (4, "N")})


class ProgramTest(unittest.TestCase):
    """The program stands for itself here: a script that writes a report, or refuses."""

    def run_with(self, script, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "assay")
            path.write_text("#!/bin/sh\nfor last; do :; done\n" + script)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
            with mock.patch.dict(os.environ, {"ASSAY_PROGRAM": str(path)}):
                return assay.check("some.toml", **options)

    def test_the_report_is_read(self):
        report = self.run_with(
            "echo as on a terminal; echo '%s' > $last; exit 1"
            % json.dumps({"verdict": "fail", "findings": []})
        )
        self.assertEqual((report.verdict, str(report)), ("fail", "as on a terminal"))

    def test_a_refusal_is_an_error_with_its_words(self):
        with self.assertRaisesRegex(assay.AssayError, "^some.toml:3: error: no such key$"):
            self.run_with("echo 'some.toml:3: error: no such key' >&2; exit 2")

    def test_a_check_that_does_not_end(self):
        report = self.run_with(
            "trap 'echo \"{}\" > $last; exit 3' TERM; while :; do sleep 0.05; done".format("{}"), timeout=0.5
        )
        self.assertEqual(report.verdict, "inconclusive")

    def test_options_reach_the_program(self):
        report = self.run_with(
            'printf \'{"verdict": "pass", "title": "%s"}\' "$*" > $last', budget=2.5, seed=7
        )
        self.assertRegex(report.title, r"^check some.toml --budget 2.5 --seed 7 --json ")


if __name__ == "__main__":
    unittest.main()
