"""Contracts from PyTorch functions: the operators of a function as a formula."""

import pathlib
import subprocess
import tempfile
import unittest

from support import PROGRAM, needs_program, needs_torch
from assay import traced


def _tensors(*texts):
    return [traced.parse_tensor(text) for text in texts]


class Arguments(unittest.TestCase):
    def test_tensors_and_scalars(self):
        self.assertEqual(_tensors("x = bf16[rows, 64]"), [("x", "bf16", ("rows", "64"))])
        self.assertEqual(traced.parse_scalar("eps = 1e-6"), ("eps", 1e-6))
        self.assertEqual(traced.parse_scalar("causal=1"), ("causal", 1))

    def test_a_module_is_found_by_its_name(self):
        self.assertRegex(traced.in_file("assay.traced:load"), r"assay/traced\.py:load$")
        self.assertEqual(traced.in_file("model.py:norm"), "model.py:norm")
        with self.assertRaisesRegex(traced.TraceError, "there is no module `no_such.module`"):
            traced.in_file("no_such.module:norm")

    def test_mistakes_are_one_line(self):
        for text in ("x", "x = bfloat[N]", "x = f32[N + 1]", "f32[N]"):
            with self.assertRaisesRegex(traced.TraceError, "--tensor"):
                traced.parse_tensor(text)
        with self.assertRaisesRegex(traced.TraceError, "NAME = NUMBER"):
            traced.parse_scalar("eps = small")
        with self.assertRaisesRegex(traced.TraceError, "there is no such file"):
            traced.load("nowhere.py:f")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "model.py"
            for text, said in (("import no_such_module", "there is no module `no_such_module` for .*; install it there"),
                               ("1 / 0", "model.py cannot be imported: ZeroDivisionError: division by zero")):
                file.write_text(text)
                with self.assertRaisesRegex(traced.TraceError, said):
                    traced.load(f"{file}:f")


@needs_torch
class Functions(unittest.TestCase):
    def formula(self, function, tensors, **scalars):
        return traced.trace(function, _tensors(*tensors), scalars).formula

    def test_a_norm_with_a_scalar(self):
        import torch

        def rmsnorm(x, w, eps):
            z = x.float()
            return (z * torch.rsqrt((z * z).mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)

        self.assertEqual(
            self.formula(rmsnorm, ["x = bf16[rows, cols]", "w = bf16[cols]"], eps=1e-6),
            "t1[i in 0..rows, j in 0..1] = mean[k2 in 0..cols](x[i, k2] * x[i, k2])\n"
            "y[i, j] = (x[i, j] * rsqrt(t1[i, 0] + eps)) * w[j]",
        )

    def test_results_in_between_may_be_rounded(self):
        import torch.nn.functional as F

        def swiglu(x, g):
            return F.silu(x) * g

        self.assertEqual(self.formula(swiglu, ["x = bf16[N]", "g = bf16[N]"]), "y[i] = bf16(silu(x[i])) * g[i]")
        self.assertEqual(self.formula(swiglu, ["x = f32[N]", "g = f32[N]"]), "y[i] = silu(x[i]) * g[i]")

    def test_several_results_and_a_product(self):
        def both(a, b):
            product = a @ b.t()
            return product, product.amax(-1)

        made = traced.trace(both, _tensors("a = f32[M, K]", "b = f32[N, K]"), {})
        self.assertEqual([output.shape for output in made.outputs], [("M", "N"), ("M",)])
        self.assertIn("sum[", made.formula)

    def test_an_operator_without_a_formula(self):
        made = traced.trace(lambda x: x.sort(-1)[0], _tensors("x = f32[M, N]"), {})
        self.assertIsNone(made.formula)
        self.assertIn("sort", made.missing)
        text = traced.contract_text("model.py:f", _tensors("x = f32[M, N]"), {}, made)
        self.assertIn('torch = "model.py:f"', text)

    @needs_program
    def test_the_contract_is_one(self):
        import torch

        def f(x, w, b):
            return torch.softmax(torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b), -1)

        tensors = _tensors("x = f32[M, N]", "w = f32[N]", "b = f32[N]")
        with tempfile.TemporaryDirectory() as folder:
            contract = pathlib.Path(folder, "f.toml")
            contract.write_text(traced.contract_text("model.py:f", tensors, {}, traced.trace(f, tensors, {})))
            run = subprocess.run([PROGRAM, "formula", contract], capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
