"""Features of PyTorch that reach ATen by other ways than plain calls: each program computes the same on the virtual GPU
as on the CPU.

test_torch.py runs this module under `assay run`, so that `cuda` is the virtual GPU.
"""

import copy
import unittest
import warnings
from typing import Any, Callable, List

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree


def on_cpu(value: Any) -> List[Any]:
    """All tensors and numbers of a result, on the host."""
    leaves = pytree.tree_leaves(value)
    leaves = [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return [leaf.to_dense() if isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided else leaf for leaf in leaves]


class FeatureTest(unittest.TestCase):
    def setUp(self) -> None:
        warnings.simplefilter("ignore")  # TorchScript and others are deprecated

    def same(self, program: Callable[[str], Any], **tolerance: float) -> None:
        """`program(device)` gives the same for both devices; it makes its random values on the CPU."""
        results = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(7)
            results.append(on_cpu(program(device)))
        self.assertEqual(len(results[0]), len(results[1]))
        self.assertTrue(results[0])
        tolerance = tolerance or {"rtol": 1e-4, "atol": 1e-5}
        for expected, result in zip(*results):
            torch.testing.assert_close(result, expected, **tolerance)


class ConvTimesConstant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3)
        self.factor = nn.Parameter(torch.randn(6, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.leaky_relu(self.conv(x) * self.factor, 0.01))


class ConvAddRelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(F.relu(self.conv(x)) + x).relu_() + F.relu(self.conv(x) + x)


class Branches(nn.Module):
    """Control flow, which only scripting keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(int(x.size(0))):
            if bool(x[i].sum() > 0):
                x = self.layer(x) * 0.5
            else:
                x = x - float(i)
        return x


def models() -> List[Any]:
    """Models with an input of each."""
    image, rows, signal = torch.randn(2, 4, 6, 6), torch.randn(3, 5), torch.randn(2, 4, 9)
    conv_bn = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU())
    linear_bn = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Sigmoid())
    transposed = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Hardswish())
    signals = nn.Sequential(nn.Conv1d(4, 4, 3, groups=2), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Softmax(1))
    for model in (conv_bn, linear_bn, transposed, signals):
        norm = model[1]
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.normal_(norm.bias)
    dropout = nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5), nn.LayerNorm(5), nn.GELU())
    return [
        (conv_bn, image), (linear_bn, rows), (transposed, image), (signals, signal), (dropout, rows),
        (ConvTimesConstant(), image), (ConvAddRelu(), image), (nn.TransformerEncoderLayer(4, 2, 8), torch.randn(3, 2, 4)),
    ]


class TorchScriptTest(FeatureTest):
    def assert_same_model(self, make: Callable[[nn.Module, torch.Tensor], Callable], *dtypes: torch.dtype) -> None:
        """What `make` makes of a model in evaluation mode computes what the model computes on the CPU."""
        torch.manual_seed(3)
        for model, x in models():
            for dtype in dtypes or (torch.float32,):
                of_type = copy.deepcopy(model).to(dtype).eval()
                expected = copy.deepcopy(of_type)(x.to(dtype))
                on_gpu = x.cuda().to(dtype)
                made = make(of_type.cuda(), on_gpu)
                tolerance = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
                for _ in range(3):  # the second call is profiled, the third optimised
                    torch.testing.assert_close(made(on_gpu).cpu(), expected, **tolerance)

    def test_trace(self) -> None:
        self.assert_same_model(torch.jit.trace, torch.float32, torch.float64, torch.bfloat16)

    def test_script(self) -> None:
        self.assert_same_model(lambda model, x: torch.jit.script(model))

    def test_freeze(self) -> None:
        self.assert_same_model(lambda model, x: torch.jit.freeze(torch.jit.script(model)), torch.float64)
        self.assert_same_model(lambda model, x: torch.jit.freeze(torch.jit.trace(model, x)))

    def test_optimize_for_inference(self) -> None:
        with torch.no_grad():
            self.assert_same_model(lambda model, x: torch.jit.optimize_for_inference(torch.jit.script(model)))
            self.assert_same_model(
                lambda model, x: torch.jit.optimize_for_inference(torch.jit.trace(model, x)), torch.bfloat16)

    def test_fuser_of_the_programs_choice(self) -> None:
        with torch.jit.fuser("fuser1"), torch.no_grad():
            self.assert_same_model(torch.jit.trace)

    def test_trace_of_other_shape(self) -> None:
        """A trace holds the operators, not the tensors of the call that was traced."""

        def program(device: str) -> Any:
            conv = nn.Conv2d(2, 3, 3).to(device)
            traced = torch.jit.trace(nn.Sequential(conv, nn.Flatten(), nn.Softmax(1)), torch.randn(1, 2, 5, 5).to(device))
            return [traced(torch.randn(2, 2, size, size).to(device)) for size in (5, 6, 4)]

        self.same(program)

    def test_training(self) -> None:
        def program(device: str) -> Any:
            model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).to(device)
            scripted = torch.jit.script(model)
            x = torch.randn(3, 5).to(device)
            for _ in range(4):
                loss = scripted(x).square().sum()
                loss.backward()
                with torch.no_grad():
                    for p in model.parameters():
                        p -= 0.01 * p.grad
                        p.grad = None
            return loss, *model.parameters()

        self.same(program)

    def test_control_flow(self) -> None:
        self.same(lambda device: torch.jit.script(Branches().to(device))(torch.randn(4, 5).to(device)))

    def test_copies_in_traces(self) -> None:
        def fill(x: torch.Tensor) -> torch.Tensor:
            y = torch.zeros(x.shape, device=x.device)
            y[1:].copy_(x[:-1])
            y[0] = x[-1] * 2
            return y.double().to(torch.float32).contiguous() + y.t().contiguous().t()

        def program(device: str) -> Any:
            traced = torch.jit.trace(fill, torch.randn(4, 3).to(device))
            return traced(torch.randn(4, 3).to(device)), traced(torch.randn(4, 3).to(device))

        self.same(program)


class SpecialValueTest(FeatureTest):
    def test_gelu(self) -> None:
        """Infinity and the largest numbers stay what they are, in every form of the operator."""
        values = torch.tensor([float("inf"), 3.4e38, float("nan"), -3.4e38]).repeat(50)  # long enough for oneDNN
        expected = [float("inf"), torch.tensor(3.4e38).item(), float("nan"), 0.0]
        for approximate in ("none", "tanh"):
            x, out = values.cuda(), torch.empty(200, device="cuda")
            torch.ops.aten.gelu.out(x, approximate=approximate, out=out)
            for y in (F.gelu(x, approximate=approximate), out, torch.ops.aten.gelu_(x, approximate=approximate)):
                torch.testing.assert_close(y[:4].cpu(), torch.tensor(expected), equal_nan=True, rtol=0, atol=0)
        x = values.cuda().requires_grad_()
        F.gelu(x).sum().backward()
        self.assertEqual(x.grad[1].item(), 1)


if __name__ == "__main__":
    unittest.main()
