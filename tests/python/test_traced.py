"""Contracts from PyTorch functions: the operators of a function as a formula."""

import math
import pathlib
import subprocess
import tempfile
import unittest

from support import PROGRAM, needs_program, needs_torch
from assay import graph_formula, traced


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

    def test_a_constant_that_comes_from_a_shape(self):
        def scores(q, k):
            return q @ k.t() / math.sqrt(q.shape[-1])

        self.assertEqual(
            self.formula(scores, ["q = f32[S, D]", "k = f32[T, D]"]),
            "t1[i in 0..S, j in 0..T] = sum[k2 in 0..D](q[i, k2] * k[j, k2])\ny[i, j] = t1[i, j] / sqrt(D)",
        )
        self.assertEqual(self.formula(lambda x: x.sum(-1) / x.shape[-1], ["x = f32[M, N]"]),
                         "t1[i in 0..M] = sum[k2 in 0..N](x[i, k2])\ny[i] = t1[i] / N")

    def test_what_depends_on_a_shape_otherwise_has_no_formula(self):
        for function in (lambda x: x * math.log(x.shape[0]), lambda x: x if x.shape[0] % 4 == 1 else -x):
            made = traced.trace(function, _tensors("x = f32[N]"), {})
            self.assertEqual((made.formula, made.missing), (None, "a constant or a branch that depends on the shape"))

    def test_extents_are_products(self):
        import torch
        import torch.nn.functional as F

        def rotated(x, c, s):
            half = x.shape[1] // 2
            return x * c + torch.cat([-x[:, half:], x[:, :half]], -1) * s

        self.assertEqual(
            self.formula(rotated, ["x = f32[M, 2*H]", "c = f32[M, 2*H]", "s = f32[M, 2*H]"]),
            "y[i, j] = (x[i, j] * c[i, j]) + ((if j < H then (-x[i, j + H]) else x[i, j - H]) * s[i, j])",
        )
        self.assertEqual(self.formula(lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1], ["x = f32[M, 2 * H]"]),
                         "y[i, j] = silu(x[i, j]) * x[i, j + H]")
        with self.assertRaisesRegex(traced.TraceError, "write it as a product"):
            self.formula(lambda x, w, b: F.group_norm(x, 4, w, b), ["x = f32[B, C, H]", "w = f32[C]", "b = f32[C]"])
        self.assertEqual(
            self.formula(lambda x, w, b: F.group_norm(x, 4, w, b), ["x = f32[B, 4*C, H]", "w = f32[4*C]", "b = f32[4*C]"]),
            "t1[i in 0..B, j in 0..4] = mean[k1 in 0..C, k2 in 0..H](x[i, j * C + k1, k2])\n"
            "t2[i in 0..B, j in 0..4] = mean[k1 in 0..C, k2 in 0..H]((x[i, j * C + k1, k2] - t1[i, j])^2)\n"
            "y[i, j, k] = (x[i, j, k] - t1[i, j / C]) * rsqrt(t2[i, j / C] + 1e-05) * w[j] + b[j]",
        )

    def test_a_norm_with_given_statistics(self):
        import torch.nn.functional as F

        self.assertEqual(self.formula(lambda x, m, v: F.batch_norm(x, m, v), ["x = f32[B, C]", "m = f32[C]", "v = f32[C]"]),
                         "y[i, j] = x[i, j] * rsqrt(v[j] + 1e-05) - m[j] * rsqrt(v[j] + 1e-05)")

    def test_sums_and_differences_of_extents(self):
        import torch

        made = traced.trace(lambda x: x[:, 1:] - x[:, :-1], _tensors("x = f32[M, N]"), {})
        self.assertEqual((made.formula, made.outputs[0].shape), ("y[i, j] = x[i, j + 1] - x[i, j]", ("M", "N - 1")))
        made = traced.trace(lambda a, b: torch.cat([a, b], -1), _tensors("a = f32[M, N]", "b = f32[M, K]"), {})
        self.assertEqual(made.outputs[0].shape, ("M", "N + K"))
        for primes in graph_formula.PRIMES:
            sums = [a + b for at, a in enumerate(primes) for b in primes[at:]]
            self.assertEqual(len(sums), len(set(sums)))
            self.assertGreater(min(b - a for a, b in zip(primes, primes[1:])), 2 * graph_formula.LARGEST_OFFSET)

    def test_arguments_of_an_operator_count(self):
        import torch.nn.functional as F

        self.assertEqual(self.formula(lambda x: F.softplus(x, beta=2.0), ["x = f32[N]"]), "y[i] = softplus(2.0 * x[i]) / 2.0")
        self.assertIsNone(self.formula(lambda x: (x / 3).round(decimals=2), ["x = f32[N]"]))

    def test_tensors_that_hold_indices(self):
        import torch.nn.functional as F

        tensors = _tensors("x = f32[M, N]", "t = i64[M]")
        made = traced.trace(lambda x, t: F.cross_entropy(x, t), tensors, {})
        self.assertEqual(made.positions, {"t": "index(N)"})
        self.assertIn('values = "index(N)"', traced.contract_text("model.py:f", tensors, {}, made))
        made = traced.trace(lambda t, w: F.embedding(t, w), _tensors("t = i64[M]", "w = f32[V, D]"), {})
        self.assertEqual((made.formula, made.positions), ("y[i, j] = w[t[i], j]", {"t": "tokens(V)"}))

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
