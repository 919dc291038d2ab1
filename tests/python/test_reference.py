"""assay.reference: exact values of PyTorch references, their rounding budgets, and the server."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, needs_torch


def evaluate(function, *inputs, dtype=None, stored=None, **precision):
    """Value, bound and sigma of the reference's results, and the evaluation."""
    import torch

    from assay.reference.budget import BudgetEvaluation
    from assay.reference.precision import Precision, round_to

    dtype = dtype or torch.float32
    run = BudgetEvaluation(Precision(**precision))
    given = [run.input(round_to(x.double(), dtype), dtype) if x.is_floating_point() else x for x in inputs]
    with run:
        made = function(*given)
    several = isinstance(made, (tuple, list))
    results = [run.result(t, stored or dtype) for t in (made if several else [made])]
    return (results if several else results[0]), run


@needs_torch
class Values(unittest.TestCase):
    def setUp(self):
        import torch

        self.torch = torch
        torch.manual_seed(5)

    def test_values_are_those_of_float64(self):
        torch = self.torch
        x = torch.randn(4, 33)

        def reference(x):
            h = x.float()
            return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

        (value, _, _), _ = evaluate(reference, x)
        wide = x.double()
        wanted = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        self.assertLess(float((value - wanted).abs().max()), 1e-12)

    def test_the_reference_sees_its_own_types(self):
        torch = self.torch
        seen = []

        def reference(x):
            y = x.float() @ x.float().T
            seen.extend([x.dtype, y.dtype, y.to(x.dtype).dtype, y.double().dtype, x.half().dtype,
                         x.sum().dtype,
                         torch.finfo(x.dtype).max])
            return y

        evaluate(reference, torch.randn(3, 3), dtype=torch.bfloat16)
        bf16 = torch.bfloat16
        self.assertEqual(seen, [bf16, torch.float32, bf16, torch.float64, torch.float16, bf16,
                                torch.finfo(bf16).max])

    def test_devices_become_the_cpu(self):
        torch = self.torch

        def reference(x):
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            with torch.device("cuda"):
                ones = torch.ones(4)
            torch.cuda.synchronize()
            moved = x.to("cuda", non_blocking=True)
            return x.cuda() + torch.zeros(4, device="cuda:0") + ones.to(device) + moved

        (value, _, _), _ = evaluate(reference, torch.full((2, 4), 2.0))
        self.assertEqual(value.tolist(), [[5.0] * 4] * 2)

    def test_modules_with_f32_parameters(self):
        torch = self.torch
        module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.GELU())
        lstm = torch.nn.LSTM(6, 3, batch_first=True)
        x = torch.randn(2, 4, 6)
        for made in (module, lambda t: lstm(t)[0]):
            (value, bound, _), _ = evaluate(made, x)
            with torch.no_grad():
                native = made(x).double()
            self.assertTrue(bool(((native - value).abs() <= bound + 1e-7).all()))
            self.assertGreater(float((native - value).abs().max()), 0)

    def test_batch_norm_updates_its_statistics(self):
        torch = self.torch
        norm = torch.nn.BatchNorm1d(3)
        x = torch.randn(16, 3) + 2
        (_, (mean, bound, _)), _ = evaluate(lambda t: (norm(t), norm.running_mean), x)
        self.assertLess(float((mean - 0.1 * x.double().mean(0)).abs().max()), 1e-8)
        self.assertGreater(float(bound.min()), 0)

    def test_backward_passes(self):
        torch = self.torch
        seen = []

        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                context.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(context, gradient):
                (x,) = context.saved_tensors
                seen.append(x.dtype)
                return gradient * 3 * x * x

        def reference(x):
            x = x.detach().requires_grad_()
            Cube.apply(x).sum().backward()
            return x.grad

        x = torch.randn(7)
        (value, bound, _), _ = evaluate(reference, x, dtype=torch.bfloat16)
        wide = x.bfloat16().double()
        self.assertLess(float((value - 3 * wide * wide).abs().max()), 1e-12)
        self.assertEqual(seen, [torch.bfloat16])
        self.assertGreater(float(bound.max()), 0)

    def test_casts_to_fp8_round_once(self):
        torch = self.torch
        # Just above the middle of 1 and 1.125: rounded to f32 first it would be the middle, and go down.
        x = torch.tensor([1.0625 + 2.0 ** -40], dtype=torch.float64)
        (value, _, _), _ = evaluate(lambda t: (t + 2.0 ** -40).to(torch.float8_e4m3fn).float(),
                                    torch.tensor([1.0625]))
        self.assertEqual(value.item(), 1.125)
        self.assertEqual(x.to(torch.float32).to(torch.float8_e4m3fn).float().item(), 1.0)

    def test_control_flow_and_integers(self):
        torch = self.torch

        def reference(x, lengths):
            parts = [x[: n] * (1 if x[0, 0].item() > 0 else -1) for n in lengths.tolist()]
            return torch.cat(parts)[torch.arange(3) % 2]

        (value, bound, _), _ = evaluate(reference, torch.ones(4, 2), torch.tensor([1, 2]))
        self.assertEqual(value.tolist(), [[1.0, 1.0]] * 3)
        self.assertEqual(float(bound.max()), 0)


@needs_torch
class Budgets(unittest.TestCase):
    def setUp(self):
        import torch

        self.torch = torch
        torch.manual_seed(6)

    def test_exact_arithmetic_has_no_bound(self):
        torch = self.torch
        x = torch.arange(-8, 8).float().reshape(4, 4)
        for function in (lambda t: t * 2 + 1, lambda t: t @ t, lambda t: t.sum(-1),
                         lambda t: t.relu().amax(0),
                         lambda t: t.cumsum(0), lambda t: torch.cat([t, -t]).T.contiguous()):
            (_, bound, sigma), _ = evaluate(function, x)
            self.assertEqual((float(bound.max()), float(sigma.max())), (0, 0))

    def test_the_store_is_not_in_the_bound(self):
        torch = self.torch
        x = torch.rand(64) + 1
        for function in (lambda t: t * t, lambda t: (t.float() * t.float()).to(t.dtype),
                         lambda t: torch.stack([t * t]).permute(1, 0).contiguous()[:, 0]):
            (value, bound, _), _ = evaluate(function, x, dtype=torch.bfloat16)
            self.assertLess(float((bound / value).max()), 1e-6)

    def test_declared_roundings_are_allowed(self):
        torch = self.torch
        x = torch.rand(64) + 1
        wide = x.bfloat16().double()
        for function in (lambda t: t * t + 1,
                         lambda t: (t.float() * t.float()).to(torch.bfloat16).float() + 1):
            (value, bound, _), _ = evaluate(function, x, dtype=torch.bfloat16)
            rounded = (wide * wide).bfloat16().double() + 1
            self.assertTrue(bool(((rounded - value).abs() <= bound).all()))
            self.assertLess(float(bound.max()), 2.0 ** -5)
        (_, bound, _), _ = evaluate(lambda t: t.float() * t.float() + 1, x, dtype=torch.bfloat16)
        self.assertLess(float(bound.max()), 1e-5)

    def test_views_and_in_place_operations_share_bounds(self):
        torch = self.torch

        def reference(x):
            y = x / 3
            z = torch.zeros(4, 6)
            z[1:3, 2:].copy_(y[:2])
            z.view(-1)[0] = 7.0
            z.t()[5, 3] += 0.1
            return z

        (value, bound, _), _ = evaluate(reference, torch.rand(2, 4) + 1)
        touched = bound > 0
        self.assertEqual(touched.sum().item(), 9)
        self.assertTrue(bool(touched[1:3, 2:].all()) and bool(touched[3, 5]) and value[0, 0] == 7)

    def test_undecided_choices_cover_both(self):
        torch = self.torch
        x = torch.tensor([1.0, 3.0, 0.1])

        def reference(t):
            y = t / 3 * 3
            return torch.where(y >= t, torch.ones(3), torch.full((3,), 5.0))

        (value, bound, _), _ = evaluate(reference, x)
        self.assertTrue(bool((bound >= 4).all()))
        (_, bound, _), _ = evaluate(lambda t: torch.where(t / 3 > 0.5, t, -t), x)
        self.assertEqual(float(bound.max()), 0)

    def test_ties_of_indices(self):
        torch = self.torch
        x = torch.tensor([[0.3, 0.9, 0.9, 0.1], [0.1, 0.2, 0.3, 0.9]])
        (_, bound, _), _ = evaluate(lambda t: t.argmax(-1), x)
        self.assertEqual(bound.tolist(), [0.0, 0.0])  # argmax is the first of equals
        (_, bound, _), _ = evaluate(lambda t: torch.topk(t, 1).indices, x)
        self.assertEqual(bound[:, 0].tolist(), [1.0, 0.0])  # topk leaves it open
        (_, bound, _), _ = evaluate(lambda t: (t / 3).argmax(-1), x)
        self.assertEqual(bound.tolist(), [1.0, 0.0])

    def test_an_undecided_index_is_not_judged_further(self):
        torch = self.torch
        x = torch.tensor([[0.3, 0.9, 0.9, 0.1], [0.1, 0.2, 0.3, 0.9]])

        def reference(t):
            index = torch.topk(t / 3, 1).indices
            return torch.gather(torch.arange(8).float().reshape(2, 4), 1, index)[:, 0]

        (value, bound, _), _ = evaluate(reference, x)
        self.assertEqual(bound.tolist(), [float("inf"), 0.0])

    def test_nonfinite_values(self):
        torch = self.torch
        x = torch.tensor([[1.0, float("nan")], [float("inf"), 2.0], [1.0, 2.0]])
        (value, bound, _), _ = evaluate(lambda t: t.sum(-1) / 3, x)
        self.assertTrue(value[0].isnan() and value[1].isinf() and bool(bound[2] > 0))
        self.assertEqual(bound[:2].tolist(), [0.0, 0.0])
        (_, bound, _), _ = evaluate(lambda t: torch.exp(t) / torch.exp(t).sum(), torch.tensor([100.0, 1.0]))
        self.assertTrue(bool(torch.isinf(bound).any()))  # an intermediate value overflows f32

    def test_an_infinity_costs_others_no_bound(self):
        torch = self.torch
        x = torch.randn(4, 6, 8)
        x[1, 0, 3] = float("inf")  # the mean is NaN or infinite: that depends on the algorithm
        (value, bound, _), run = evaluate(lambda x: torch.nn.functional.group_norm(x, 2).mean((1, 2)), x)
        self.assertEqual(torch.isnan(value).tolist(), [False, True, False, False])
        self.assertTrue(bool((bound[[0, 2, 3]] > 1e-8).all()), bound)
        self.assertNotIn("moving", run.rests_on())

    def test_what_a_nan_decides_is_left_open(self):
        torch = self.torch
        from assay.reference.nan_choices import left_open

        x = torch.tensor([[float("nan"), 1.0], [2.0, float("inf")], [-3.0, 4.0]], dtype=torch.float64)

        def outputs(run, given):
            x = given["x"]
            return {"mask": torch.where(x > 0, 5.0, 7.0), "at": x.argmax(1), "sum": x.sum(1),
                    "any": torch.where(torch.isnan(x).any(1), 1.0, 2.0)}

        zeros = lambda t: torch.zeros(t.shape, dtype=torch.float64)
        results = {name: (t, zeros(t), zeros(t)) for name, t in outputs(None, {"x": x}).items()}
        bounds = {name: bound.tolist() for name, (_, bound, _) in left_open(results, {"x": x}, outputs).items()}
        inf = float("inf")
        self.assertEqual(bounds, {"mask": [[inf, 0], [0, 0], [0, 0]], "at": [inf, 0, 0], "sum": [0, 0, 0],
                                  "any": [inf, 0, 0]})

    def test_masked_scores_cost_nothing(self):
        torch = self.torch
        x = torch.randn(3, 8)
        masks = (lambda t: t.masked_fill(t > 0, float("-inf")),
                 lambda t: t + (t > 0) * torch.finfo(t.dtype).min,
                 lambda t: t + (t > 0) * torch.finfo(t.dtype).min * 2)  # two masks: beyond f32
        for mask in masks:
            (value, bound, _), _ = evaluate(lambda t, mask=mask: mask(t).softmax(-1), x)
            self.assertLess(float(bound.max()), 1e-5)

    def test_nothing_is_required_of_what_may_have_overflowed_before(self):
        torch = self.torch
        functional = torch.nn.functional
        x, y = torch.randn(4, 16).abs() + 1, (torch.randn(16, 4).abs() + 1) * 3e37  # x @ y is beyond f32
        for bounded in (torch.sigmoid, torch.tanh, torch.relu, lambda t: t.clamp(-1, 1), lambda t: t.softmax(-1),
                        lambda t: functional.layer_norm(t, (4,))):
            (_, bound, _), _ = evaluate(lambda x, y: bounded(x @ y), x, y)
            self.assertTrue(torch.isinf(bound).all())

    def test_fast_math_takes_subnormal_numbers_for_zeros(self):
        torch = self.torch
        x, y = torch.tensor([2.0, 0.5, 2.0 ** 100, 0.0]), torch.tensor([2.0 ** -130, 2.0 ** -126, 2.0 ** -130, 1.0])
        for fast in (False, True):
            (value, bound, _), _ = evaluate(lambda x, y: x * y, x, y, fast=fast)
            may_be_zero = [fast, fast, fast, True]  # an operand, the result, an operand; the last is zero anyway
            self.assertEqual((bound >= value.abs()).tolist(), may_be_zero)

    def test_fast_math_tensor_cores_and_tf32_are_wider(self):
        torch = self.torch
        x = torch.randn(8, 64)

        def median(function, **options):
            return float(evaluate(function, x, **options)[0][1].median())

        product, tanh = (lambda t: t @ t.T), (lambda t: torch.tanh(t))
        self.assertGreater(median(tanh, fast=True), 100 * median(tanh))
        self.assertGreater(median(product, tensor_cores=True), median(product))
        self.assertGreater(median(product, tf32=True), 10 * median(product))

    def outside(self, reference, kernel, x, **options):
        """Elements of a kernel's f32 result that are beyond the bound and the store."""
        (value, bound, _), _ = evaluate(reference, x, **options)
        return int(((kernel(x).double() - value).abs() > bound + 2.0 ** -24 * value.abs() + 1e-45).sum())

    def test_documented_formulas_are_allowed(self):
        torch = self.torch
        F, exp, log, where = torch.nn.functional, torch.exp, torch.log, torch.where
        x = torch.cat([torch.randn(500) * scale for scale in (1e-6, 1e-3, 0.05, 1, 6)]).clamp(-60, 60)
        x = torch.cat([x, torch.linspace(-3.001, -2.999, 500)])
        sigmoid = lambda t: 1 / (1 + exp(-t))
        target = torch.rand(x.shape)

        def slope(function):
            def made(t):
                t = t.detach().requires_grad_()
                function(t).sum().backward()
                return t.grad

            return made

        def mish_slope(t):
            w = torch.tanh(log(1 + exp(t)))
            return w + t * sigmoid(t) * (1 - w * w)

        of_logits = lambda t: F.binary_cross_entropy_with_logits(t, target.to(t.dtype), reduction="none")
        for name, reference, kernel in [
            ("elu", lambda t: F.elu(t, 2.5), lambda t: where(t > 0, t, 2.5 * (exp(t) - 1))),
            ("elu_", lambda t: F.elu(t.clone(), inplace=True), lambda t: where(t > 0, t, exp(t) - 1)),
            ("selu", F.selu, lambda t: 1.0507009873554805 * where(t > 0, t, 1.6732632423543772 *
                                                                  (exp(t) - 1))),
            ("celu", lambda t: F.celu(t, 1.7), lambda t: where(t > 0, t, 1.7 * (exp(t / 1.7) - 1))),
            ("softplus", F.softplus, lambda t: where(t > 20, t, log(1 + exp(t)))),
            ("logsigmoid", F.logsigmoid, lambda t: log(1 / (1 + exp(-t)))),
            ("logsigmoid backward", slope(F.logsigmoid), lambda t: 1 - sigmoid(t)),
            ("mish", F.mish, lambda t: t * torch.tanh(log(1 + exp(t)))),
            ("mish backward", slope(F.mish), mish_slope),
            ("tanh", torch.tanh, lambda t: (exp(t) - exp(-t)) / (exp(t) + exp(-t))),
            ("tanh by sigmoid", torch.tanh, lambda t: 2 * sigmoid(2 * t) - 1),
            ("hardsigmoid", F.hardsigmoid, lambda t: (t / 6 + 0.5).clamp(0, 1)),
            ("hardswish", F.hardswish, lambda t: t * (t * (1 / 6) + 0.5).clamp(0, 1)),
            ("soft margin", lambda t: F.soft_margin_loss(t, torch.ones_like(t), reduction="none"),
             lambda t: log(1 + exp(-t))),
            ("logits", of_logits, lambda t: t.clamp(min=0) - t * target + log(1 + exp(-t.abs()))),
        ]:
            with self.subTest(name):
                self.assertEqual(self.outside(reference, kernel, x), 0)

    def test_what_is_not_the_documented_formula(self):
        torch = self.torch
        F = torch.nn.functional
        x = torch.randn(1000) * 1e-3
        self.assertGreater(self.outside(torch.expm1, lambda t: torch.exp(t) - 1, x), 500)
        self.assertGreater(self.outside(torch.log1p, lambda t: torch.log(1 + t), x), 500)
        both = lambda t: torch.expm1(F.elu(t))
        self.assertGreater(self.outside(both, lambda t: torch.exp(t) - 1, x.abs()), 500)
        wide = torch.randn(1000)
        by_tanh = lambda t: F.gelu(t, approximate="tanh")
        self.assertGreater(self.outside(F.gelu, by_tanh, wide), 800)
        overflows = lambda t: torch.log(1 / (1 + torch.exp(-t)))
        self.assertEqual(self.outside(F.logsigmoid, overflows, torch.tensor([-95.0])), 1)
        halved = lambda t: F.elu(t.half().float()).half().float()
        self.assertGreater(self.outside(F.elu, halved, wide), 800)

    def test_what_depends_on_dropout_is_not_judged(self):
        torch = self.torch
        dropout = torch.nn.functional.dropout
        (_, bound, _), run = evaluate(lambda t: torch.cat([dropout(t, 0.5), dropout(t, 0.5, training=False)]),
                                      torch.rand(8) + 1)
        self.assertTrue(bool(torch.isinf(bound[:8]).all()) and float(bound[8:].max()) == 0)
        self.assertIn("dropout is not judged", run.rests_on())

    def test_arguments_left_at_their_defaults(self):
        torch = self.torch
        x = torch.linspace(-3, 3, 13)
        functional = torch.nn.functional
        for function in (lambda t: functional.hardtanh(t, -0.5, 1.0), lambda t: functional.hardtanh(t, -1.0, 2.0),
                         lambda t: torch.fmod(t, 0.75), lambda t: torch.remainder(t, 0.75),
                         lambda t: t.std(), lambda t: functional.leaky_relu(t), lambda t: functional.softplus(t)):
            (value, bound, _), run = evaluate(function, x)
            self.assertTrue(bool(((value - function(x.double())).abs() <= 1e-12).all()))
            self.assertEqual(run.perturbed, set())

    def test_a_rule_with_other_values_than_the_operator_is_not_used(self):
        from assay.reference import rules
        from assay.reference.arithmetic import Value

        torch = self.torch
        x = torch.linspace(-1, 1, 9)
        kept = rules.RULES["erf"]
        rules.RULES["erf"] = lambda run, a: Value(a["self"] * 2)
        try:
            (value, _, _), run = evaluate(torch.erf, x)
        finally:
            rules.RULES["erf"] = kept
        self.assertLess(float((value - torch.erf(x.double())).abs().max()), 1e-12)
        self.assertNotEqual(evaluate(torch.erf, x)[1].perturbed, run.perturbed)

    def test_operators_without_a_rule_are_perturbed(self):
        torch = self.torch
        x = torch.randn(4, 4) + 6 * torch.eye(4)
        (value, bound, _), run = evaluate(lambda t: torch.linalg.inv(t * 1.1), x)
        native = torch.linalg.inv(x * 1.1).double()
        self.assertIn("linalg_inv_ex", run.rests_on())
        self.assertTrue(bool(((native - value).abs() <= bound + 1e-7).all()))
        self.assertLess(float(bound.max()), 1e-4)


@needs_torch
class SimulatedKernels(unittest.TestCase):
    """A few of the trials of reference_trials.py: no right kernel outside, the plain defects found."""

    OPERATORS = ("softmax bf16", "matmul bf16", "attention backward bf16",
                 "embedding backward bf16, Zipf tokens",
                 "quantise to e4m3 by rows", "variance f32")

    def test_right_and_wrong(self):
        import reference_trials as trials

        for made in trials.CASES:
            if made.name not in self.OPERATORS:
                continue
            with self.subTest(operator=made.name):
                found = trials.run_case(made, 1, ("large mean", "heavy tail"))
                self.assertEqual(found["called_wrong"], 0)
                self.assertLess(found["energy"], 16)
                tried, beyond, _ = found["defects"].get("bf16 accumulator", (0, 0, 0))
                self.assertGreaterEqual(2 * beyond, tried)


@needs_torch
class Server(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def prepare(self, source, declared=None):
        import numpy as np

        (self.path / "reference.py").write_text(source)
        declared = declared or {"inputs": {"x": {"dtype": "bf16"}}, "outputs": {"y": {"dtype": "bf16"}},
                                "args": ["x", "eps", "y"], "accumulate": "f32", "math": "standard",
                                "tensor_cores": False}
        np.save(self.path / "x.npy", np.arange(8, dtype=np.float64).reshape(2, 4) / 4)
        return declared

    def run_process(self, source, requests):
        """The answers of the program, and what it wrote to stderr."""
        declared = self.prepare(source)
        reference = self.path / "reference.py"
        command = [sys.executable, "-m", "assay.reference.server"]
        opening = {"op": "open", "reference": f"{reference}:run", "inputs": f"{reference}:make", "declared": declared}
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "CUDA_VISIBLE_DEVICES": "",
                       "OMP_NUM_THREADS": "1"}
        lines = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in [opening, *requests])
        done = subprocess.run(command, input=lines, capture_output=True, text=True, env=environment,
                              timeout=120)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def ask(self, source, request, declared=None):
        """One answer, in this process."""
        import torch

        from assay.reference import server

        before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        declared = self.prepare(source, declared)
        try:
            return server.Server(f"{self.path / 'reference.py'}:run", None, declared).answer(request)
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before

    def expect(self, **more):
        return {"op": "expect", "folder": str(self.path), "numbers": {"eps": 0.5, "N": 4}, "inputs": ["x"],
                "outputs": ["y"], "extents": {"y": [2, 4]}, **more}

    def test_answers(self):
        import numpy as np

        source = """
import torch
scale = torch.ones(4, device="cuda")
print("imported")

@torch.compile
def run(x, eps):
    print("called with", x.dtype)
    return x / 3 * scale + eps

def make(dims, seed):
    return {"x": torch.full((dims["M"], 4), float(seed), dtype=torch.bfloat16, device="cuda"),
            "t": torch.tensor([1, 2])}
"""
        requests = [self.expect(), "no json", {"op": "dance"}, {"op": "inputs", "folder": str(self.path),
                                                                "dims": {"M": 3}, "seed": 9},
                    self.expect(extents={"y": [3, 4]})]
        answers, printed = self.run_process(source, requests)
        self.assertEqual([a["ok"] for a in answers], [True, False, False, True, True])
        self.assertEqual((answers[0]["budget"], answers[0]["undecided"]), ("operators", 0))
        self.assertIn("called with torch.bfloat16", printed)
        value = np.load(self.path / "y.out.npy")
        bound, sigma = (np.load(self.path / f"y@{n}.out.npy") for n in ("bound", "sigma"))
        self.assertEqual([a.dtype for a in (value, bound, sigma)], [np.float64] * 3)
        # The last request read the inputs that the one before it had made.
        self.assertEqual(value.shape, (3, 4))
        self.assertTrue((np.abs(value - 3.5) < 1e-12).all() and (bound > 0).all() and (sigma > 0).all())
        self.assertEqual(np.load(self.path / "t.npy").dtype, np.int64)

    def test_errors_are_answers(self):
        source = """
import torch
def run(x, eps):
    if x.shape[0] == 2:
        raise ValueError("two rows are not enough")
"""
        answer = self.ask(source, self.expect())
        self.assertEqual(answer,
                         {"ok": False, "error": "ValueError: two rows are not enough (reference.py:5)"})
        answer = self.ask("import torch\nrun = lambda x: x[:1]", self.expect())
        self.assertIn("with the shape [1, 4], the contract says [2, 4]", answer["error"])
        answer = self.ask("def run(x): return x, x", self.expect())
        self.assertEqual(answer["error"], "the reference returns 2 outputs, the contract has 1")

    def test_a_file_that_cannot_be_imported(self):
        requests = [self.expect(), self.expect()]
        answers, _ = self.run_process("import nothing_of_this_name", requests)
        self.assertEqual(len(answers), 2)
        self.assertIn("reference.py cannot be imported: ModuleNotFoundError", answers[1]["error"])

    def test_what_cannot_be_followed_is_perturbed_as_a_whole(self):
        import numpy as np

        source = """
import torch
from assay.reference import rules

def broken(run, a):
    raise RuntimeError("no rule today")

rules.RULES["erf"] = broken

def run(x):
    return torch.erf(x / 3)
"""
        from assay.reference import rules

        kept = rules.RULES["erf"]
        try:
            answer = self.ask(source, self.expect())
        finally:
            rules.RULES["erf"] = kept
        self.assertEqual(answer["budget"], "perturbation")
        self.assertIn("no rule today", answer["rests_on"])
        value, bound = (np.load(self.path / f"y{n}.out.npy") for n in ("", "@bound"))
        self.assertAlmostEqual(value[1, 3], 0.5904, places=3)
        self.assertTrue((bound[1] > 1e-8).all() and (bound < 1e-4).all())

    def test_arguments_by_position_and_outputs_in_place(self):
        import numpy as np

        declared = {"inputs": {"x": {"dtype": "f32"}}, "outputs": {"x": {"dtype": "f32"}},
                    "args": ["x", "eps"]}
        request = self.expect(outputs=["x"], extents={})
        answer = self.ask("def run(a, *rest):\n    a.mul_(rest[0])", request, declared)
        self.assertTrue(answer["ok"], answer)
        self.assertEqual(np.load(self.path / "x.out.npy")[1, 3], 7 / 8)

    def test_tf32_where_the_reference_turns_it_on(self):
        declared = {"inputs": {"x": {"dtype": "f32"}}, "outputs": {"y": {"dtype": "f32"}}, "args": ["x"]}
        source = "import torch\n%sdef run(x): return (x + 0.1) @ (x + 0.1).T"
        request = self.expect(extents={"y": [2, 2]})
        for line, allowed in (("", False), ("torch.backends.cuda.matmul.allow_tf32 = True\n", True)):
            answer = self.ask(source % line, request, declared)
            self.assertEqual("TF32 allowed for" in answer["rests_on"], allowed)

    def test_tf32_operands_are_cut_off(self):
        import numpy as np
        import torch

        source = """
import torch
torch.backends.cuda.matmul.allow_tf32 = True
def run(x):
    a, w, c = weights()
    return torch.logsumexp(torch.sigmoid(a @ w) @ c, 1), a @ w, (a @ w).relu().mean(1)
def weights():
    torch.manual_seed(4)
    return torch.randn(64, 96), torch.randn(96, 80) / 8, torch.randn(80, 128) / 8
"""
        declared = {"inputs": {"x": {"dtype": "f32"}}, "args": ["x"],
                    "outputs": {name: {"dtype": "f32"} for name in "ypm"}}
        answer = self.ask(source, self.expect(outputs=["y", "p", "m"], extents={}), declared)
        self.assertTrue(answer["ok"], answer)
        scope = {}
        exec(source.replace("torch.backends.cuda.matmul.allow_tf32 = True", ""), scope)

        def cut(t):
            bits = t.numpy().astype(np.float32).view(np.uint32) & np.uint32(0xffffe000)
            return torch.from_numpy(bits.view(np.float32).astype(np.float64))

        a, w, c = map(cut, scope["weights"]())
        h = a @ w
        kernel = {"y": torch.logsumexp(cut(torch.sigmoid(h)) @ c, 1), "p": h, "m": h.relu().mean(1)}
        for name, made in kernel.items():
            load = lambda part: np.load(self.path / f"{name}{part}.out.npy")
            value, bound, sigma = load(""), load("@bound"), load("@sigma")
            error = np.abs(made.numpy() - value)
            self.assertTrue((error <= bound).all())
            ratio = np.sqrt(np.mean((error / sigma) ** 2))
            self.assertTrue(0.3 < ratio < 1.1, f"{name}: {ratio}")


if __name__ == "__main__":
    unittest.main()
