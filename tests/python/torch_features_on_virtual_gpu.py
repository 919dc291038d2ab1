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


class TransformTest(FeatureTest):
    def test_vmap(self) -> None:
        self.same(lambda d: torch.func.vmap(lambda a, b: (a @ b).softmax(0))(torch.randn(3, 4, 5).to(d), torch.randn(3, 5, 2).to(d)))

    def test_vmap_of_modules(self) -> None:
        def program(device: str) -> Any:
            nets = [nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3, track_running_stats=False)).to(device) for _ in range(3)]
            weights, buffers = torch.func.stack_module_state(nets)
            call = lambda w, b, x: torch.func.functional_call(nets[0], (w, b), (x,))
            return torch.func.vmap(call, in_dims=(0, 0, None))(weights, buffers, torch.randn(2, 2, 7).to(device))

        self.same(program)

    def test_vmap_with_random_numbers(self) -> None:
        rows = torch.func.vmap(lambda x: x + torch.rand(4, device="cuda"), randomness="different")(torch.zeros(8, 4, device="cuda"))
        self.assertEqual(len({tuple(row) for row in rows.tolist()}), 8)
        rows = torch.func.vmap(lambda x: F.dropout(x, 0.5), randomness="same")(torch.ones(8, 64, device="cuda"))
        self.assertEqual(len({tuple(row) for row in rows.tolist()}), 1)

    def test_gradients_per_sample(self) -> None:
        def program(device: str) -> Any:
            net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).to(device)
            weights = dict(net.named_parameters())
            loss = lambda w, x: torch.func.functional_call(net, w, (x,)).square().sum()
            return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, torch.randn(3, 4).to(device))

        self.same(program)

    def test_jacobians_and_hessians(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(3).to(device)
            f = lambda t: torch.sin(t) * t.prod()
            return (
                torch.func.jacrev(f)(x), torch.func.jacfwd(f)(x), torch.func.hessian(lambda t: f(t).sum())(x),
                torch.func.jvp(f, (x,), (torch.ones_like(x),)), torch.autograd.functional.hvp(lambda t: f(t).sum(), x, x),
                torch.func.linearize(f, x)[1](x),
            )

        self.same(program)

    def test_forward_mode(self) -> None:
        def program(device: str) -> Any:
            with torch.autograd.forward_ad.dual_level():
                x = torch.autograd.forward_ad.make_dual(torch.randn(4).to(device), torch.randn(4).to(device))
                return torch.autograd.forward_ad.unpack_dual(F.gelu(x) * x.exp()).tangent

        self.same(program)

    def test_functionalize_and_fx(self) -> None:
        def change(x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[0].add_(1)
            y.t().mul_(2)
            return y

        def program(device: str) -> Any:
            x = torch.randn(3, 4).to(device)
            graph = torch.fx.experimental.proxy_tensor.make_fx(torch.func.functionalize(change))(x)
            return graph(x), torch.func.functionalize(change)(x), torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2)).to(device))(x)

        self.same(program)

    def test_export_and_compile(self) -> None:
        def program(device: str) -> Any:
            net, x = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).to(device), torch.randn(2, 2, 5, 5).to(device)
            eager = torch.compile(net, backend="eager")(x)
            traced = torch.compile(net, backend="aot_eager")(x)
            traced.square().sum().backward()
            net.eval()
            return eager, traced, net[0].weight.grad, torch.export.export(net, (x,)).module()(x)

        self.same(program)


class AutogradTest(FeatureTest):
    def test_checkpoints(self) -> None:
        def program(device: str) -> Any:
            net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh()).to(device)
            x = torch.randn(3, 4).to(device).requires_grad_()
            for reentrant in (False, True):
                torch.utils.checkpoint.checkpoint(net, x, use_reentrant=reentrant).sum().backward()
            torch.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False).square().sum().backward()
            return x.grad, [p.grad for p in net.parameters()]

        self.same(program)

    def test_checkpoint_repeats_dropout(self) -> None:
        x = torch.ones(64, device="cuda", requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(lambda t: F.dropout(t, 0.5), x, use_reentrant=False)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())

    def test_hooks(self) -> None:
        def program(device: str) -> Any:
            seen = []
            net = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to(device)
            net[0].register_forward_hook(lambda m, i, o: o * 2)
            net[0].register_full_backward_hook(lambda m, gi, go: seen.extend(gi))
            net.register_forward_pre_hook(lambda m, i: (i[0] + 1,))
            x = torch.randn(2, 4).to(device).requires_grad_()
            x.register_hook(lambda g: g * 3)
            net[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
            net(x).square().sum().backward()
            return x.grad, seen

        self.same(program)

    def test_saved_tensor_hooks(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(4).to(device).requires_grad_()
            with torch.autograd.graph.save_on_cpu():
                (x.exp() * x).sum().backward()
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu().numpy(), lambda a: torch.from_numpy(a).to(device)):
                (x.sin() * x).sum().backward()
            return x.grad

        self.same(program)

    def test_second_derivatives(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(2, 2, 5, 5).to(device).requires_grad_()
            conv = nn.Conv2d(2, 3, 3).to(device)
            first, = torch.autograd.grad(F.softplus(conv(x)).sum(), x, create_graph=True)
            first.square().sum().backward()
            return first, x.grad, conv.weight.grad

        self.same(program)

    def test_custom_functions(self) -> None:
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(x, factor):
                return x * factor, x.sum()

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(inputs[0])
                ctx.factor = inputs[1]
                ctx.mark_non_differentiable(output[1])

            @staticmethod
            def backward(ctx, grad, _):
                return grad * ctx.factor * ctx.saved_tensors[0].cos(), None

        class InPlace(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(3)

            @staticmethod
            def backward(ctx, grad):
                return grad * 3

        def program(device: str) -> Any:
            x = torch.randn(3).to(device).requires_grad_()
            y, total = Scaled.apply(x, 2.0)
            InPlace.apply(y.clone()).sum().backward()
            return x.grad, y, total

        self.same(program)

    def test_custom_operators(self) -> None:
        @torch.library.custom_op("assay_tests::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @torch.library.custom_op("assay_tests::add_one_", mutates_args=("x",))
        def add_one_(x: torch.Tensor) -> None:
            x += 1

        twice.register_fake(lambda x: torch.empty_like(x))
        twice.register_autograd(lambda ctx, grad: grad * 2)

        def program(device: str) -> Any:
            x = torch.randn(3).to(device).requires_grad_()
            y = twice(x).detach()
            twice(x).sum().backward()
            add_one_(y)
            return y, x.grad, torch.compile(lambda t: twice(t) + 1, backend="aot_eager")(x)

        self.same(program)

    def test_anomaly_and_accumulation(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(4, 4).to(device).requires_grad_()
            with torch.autograd.detect_anomaly(check_nan=True):
                for _ in range(3):
                    (x.t() @ x).logsumexp(0).sum().backward()
            return x.grad

        self.same(program)


class MemoryTest(FeatureTest):
    def test_views_of_storage(self) -> None:
        def program(device: str) -> Any:
            base = torch.arange(24.0, device=device)
            base.as_strided((2, 3), (7, 2), 3).mul_(-1)
            base[5:].as_strided((4,), (3,), 1).add_(100)
            torch.as_strided(base, (3, 3), (1, 2), 2).copy_(torch.arange(9.0).reshape(3, 3).to(device))
            return base, base.view(4, 6)[1:, ::2].flip(0), base.as_strided((3, 4), (0, 2), 1).sum(0)

        self.same(program)

    def test_shared_storage(self) -> None:
        def program(device: str) -> Any:
            x = torch.zeros(8, device=device)
            alias = torch.empty(0, device=device).set_(x.untyped_storage(), 2, (3,), (2,))
            alias.fill_(5)
            other = torch.utils.dlpack.from_dlpack(x)
            other[0] = 7
            again = torch.from_dlpack(x[4:])
            again += 1
            return x, alias, x.data_ptr() == other.data_ptr(), alias.data_ptr() - x.data_ptr()

        self.same(program)

    def test_other_types_of_the_same_bytes(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(4, 4).to(device)
            bits = x.view(torch.int32)
            bits.bitwise_and_(0x7FFFFFFF)
            halves = x.view(torch.float16)
            complex_ = torch.view_as_complex(x.view(4, 2, 2))
            complex_.mul_(1j)
            return x, bits, halves.isnan().sum(), complex_.real, complex_.imag.contiguous(), complex_.conj().imag

        self.same(program)

    def test_overlapping_arguments(self) -> None:
        def program(device: str) -> Any:
            x = torch.arange(10.0, device=device)
            x[:5] += x[5:]
            x.mul_(x)
            torch.add(x, x, out=x)
            x[::2].sub_(x[1::2])
            y = torch.eye(3, device=device)
            y.addmm_(y, y)
            y.t().add_(y.clone())
            return x, y

        self.same(program)

    def test_resizing(self) -> None:
        def program(device: str) -> Any:
            x = torch.arange(6.0, device=device)
            x.resize_(2, 2)
            y = torch.empty(0, device=device)
            torch.cat([x, x], out=y)
            z = torch.arange(4.0, device=device)
            z.untyped_storage().resize_(32)
            return x, y, z

        self.same(program)

    def test_broadcasts_and_masks(self) -> None:
        def program(device: str) -> Any:
            x = torch.arange(24.0, device=device).reshape(2, 3, 4)
            x[x > 20] = -1
            x[:, [0, 2]] = torch.tensor([9.0, 8.0], device=device)[:, None]
            x[..., None, 1][1] *= 2
            x.masked_scatter_(x == 9, torch.arange(40.0, device=device))
            return x, x[[1, 0], :, [2, 3]], x.take_along_dim(x.argsort(-1), -1), x.where(x > 3, 0)

        self.same(program)


class LibraryTest(FeatureTest):
    def test_indexed_sums(self) -> None:
        def program(device: str) -> Any:
            x, index = torch.zeros(5, 3, device=device), torch.tensor([0, 4, 0, 2, 4, 4]).to(device)
            values = torch.randn(6, 3).to(device)
            out = [x.index_add(0, index, values, alpha=2), x.index_put((index,), values, accumulate=True)]
            out += [x.scatter_add(0, index[:, None].expand(6, 3), values)]
            for reduce in ("sum", "prod", "mean", "amax", "amin"):
                out.append(torch.full_like(x, 2).scatter_reduce(0, index[:, None].expand(6, 3), values, reduce, include_self=False))
                out.append(torch.segment_reduce(values, reduce.replace("am", "m"), lengths=torch.tensor([2, 4]).to(device)))
            return out

        self.same(program)

    def test_sparse(self) -> None:
        def program(device: str) -> Any:
            dense = torch.tensor([[0.0, 2, 0], [3, 0, 4], [0, 0, 5]]).to(device)
            rows = torch.randn(3, 2).to(device)
            coo, csr = dense.to_sparse(), dense.to_sparse_csr()
            weight = dense.to_sparse().requires_grad_()
            torch.sparse.mm(weight, rows).sum().backward()
            return (
                coo @ rows, csr @ rows, (coo + coo).coalesce(), coo * 3, torch.sparse.sum(coo, 0), weight.grad, coo.t() @ rows,
                torch.sparse.softmax(coo, 1), torch.sparse.addmm(rows, coo, rows), csr.to_sparse_coo(), coo.sum(),
                dense.to_sparse_csc(), torch.sparse.sampled_addmm(csr, rows, rows.t()),
            )

        self.same(program)

    def test_sparse_embeddings(self) -> None:
        def program(device: str) -> Any:
            table = nn.Embedding(10, 4, sparse=True).to(device)
            optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
            for _ in range(2):
                table(torch.tensor([1, 3, 1]).to(device)).square().sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            return table.weight

        self.same(program)

    def test_embedding_bags(self) -> None:
        def program(device: str) -> Any:
            out = []
            for mode in ("sum", "mean", "max"):
                bag = nn.EmbeddingBag(10, 3, mode=mode, padding_idx=2, include_last_offset=True).to(device)
                y = bag(torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]).to(device), torch.tensor([0, 4, 4, 8]).to(device))
                y.square().sum().backward()
                out += [y, bag.weight.grad]
            table = nn.Embedding(6, 3, max_norm=0.5, scale_grad_by_freq=True).to(device)
            y = table(torch.tensor([1, 1, 4]).to(device))
            y.sum().backward()
            return out, y, table.weight, table.weight.grad

        self.same(program)

    def test_nested_tensors(self) -> None:
        def program(device: str) -> Any:
            parts = [torch.randn(n, 4).to(device) for n in (2, 5, 1)]
            nested = torch.nested.nested_tensor(parts)
            jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
            layer, norm = nn.Linear(4, 3).to(device), nn.LayerNorm(4).to(device)
            padded = lambda t: torch.nested.to_padded_tensor(t, -1.0)
            changed = nested.clone()
            changed += nested
            changed.relu_()
            leaves = torch.nested.nested_tensor(parts, requires_grad=True)
            padded(layer(leaves)).sum().backward()
            products = torch.bmm(nested, nested.transpose(1, 2)).softmax(-1)
            return (
                padded(layer(nested)), padded(nested * 2), padded(norm(nested)), padded(products), padded(changed), nested.values(),
                padded(leaves.grad), layer.weight.grad, list(nested.unbind()), list(layer(jagged).unbind()), jagged.sin().values(),
                padded(jagged), list(nested.transpose(1, 2).unbind()),
            )

        self.same(program)

    def test_transformer_with_padding(self) -> None:
        """In evaluation mode torch packs the rows that are no padding into a nested tensor."""

        def program(device: str) -> Any:
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            net = nn.TransformerEncoder(layer, 2).to(device).eval()
            mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]).to(device)
            with torch.no_grad():
                y = net(torch.randn(2, 5, 8).to(device), src_key_padding_mask=mask)
            return y[0], y[1, :3]

        self.same(program)

    def test_complex_numbers(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(4, 4, dtype=torch.complex64).to(device).requires_grad_()
            y = (x @ x.conj().T).exp() / 20
            y.abs().sum().backward()
            z = x.detach()
            return y, x.grad, z.angle(), z.mH @ z, torch.linalg.solve(z, z.conj()), z.conj().resolve_conj(), z.sum().imag, -z.conj()

        self.same(program, rtol=1e-3, atol=1e-4)

    def test_fourier_transforms(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(3, 8).to(device).requires_grad_()
            spectrum = torch.fft.rfft(x)
            torch.fft.irfft(spectrum * 2, n=8).square().sum().backward()
            window = torch.hann_window(8, device=device)
            short = torch.stft(x.detach(), 8, 4, window=window, return_complex=True)
            return (
                spectrum, x.grad, torch.fft.fft2(x), torch.fft.fftshift(x), short, torch.fft.hfft(spectrum, norm="ortho"),
                torch.istft(short, 8, 4, window=window, length=8, center=True),
            )

        self.same(program)

    def test_linear_algebra(self) -> None:
        def program(device: str) -> Any:
            a = torch.randn(2, 4, 4).to(device)
            spd = (a @ a.mT + torch.eye(4, device=device)).requires_grad_()
            torch.linalg.cholesky(spd).sum().backward()
            positive = spd.detach()
            lu = torch.linalg.lu_factor(positive)
            return (
                spd.grad, torch.linalg.inv(positive), torch.linalg.det(a), torch.linalg.slogdet(positive),
                torch.linalg.eigvalsh(positive), torch.linalg.svdvals(a), torch.linalg.qr(a).R.abs(), torch.linalg.lu_solve(*lu, a),
                torch.linalg.lstsq(positive, a).solution, torch.linalg.matrix_exp(a * 0.1), torch.linalg.pinv(positive),
                torch.linalg.solve_triangular(positive.triu(), a, upper=True), torch.linalg.norm(a, "nuc", dim=(1, 2)),
                torch.linalg.eigvals(positive).real.sort().values, torch.cholesky_solve(a, torch.linalg.cholesky(positive)),
                torch.linalg.ldl_factor(positive).LD, torch.linalg.vector_norm(a, 3), torch.linalg.matrix_power(a, 3),
            )

        self.same(program, rtol=1e-3, atol=1e-3)

    def test_losses(self) -> None:
        def program(device: str) -> Any:
            logits = torch.randn(6, 2, 5).to(device).requires_grad_()
            ctc = F.ctc_loss(
                logits.log_softmax(2), torch.tensor([[1, 2], [3, 4]]).to(device), torch.tensor([6, 5]).to(device),
                torch.tensor([2, 2]).to(device))
            on_host = F.ctc_loss(logits.log_softmax(2), torch.tensor([1, 2, 3]).to(device), (6, 5), (2, 1), reduction="none")
            classes = torch.tensor([0, 3, 1, 4, 2, -100]).to(device)
            weights = torch.rand(5).to(device)
            losses = [
                ctc, on_host.sum(), F.cross_entropy(logits[:, 0], classes, weight=weights, label_smoothing=0.1),
                F.nll_loss(logits[:, 1].log_softmax(1), classes), F.multi_margin_loss(logits[:, 0], classes.clamp(min=0)),
                F.kl_div(logits[0].log_softmax(1), logits[1].softmax(1).detach(), reduction="batchmean"),
                F.binary_cross_entropy_with_logits(logits, torch.ones_like(logits), pos_weight=weights),
                F.cosine_embedding_loss(logits[0], logits[1], torch.tensor([1.0, -1.0]).to(device)),
                F.triplet_margin_loss(logits[0], logits[1], logits[2]), F.huber_loss(logits[0], logits[1]),
                F.gaussian_nll_loss(logits[0], logits[1], logits[2].exp()), F.poisson_nll_loss(logits[0], logits[1].exp()),
            ]
            sum(losses).backward()
            return losses, logits.grad

        self.same(program)

    def test_images(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(2, 4, 6, 6).to(device).requires_grad_()
            grid = F.affine_grid(torch.tensor([[[0.9, 0.1, 0], [0, 1.1, 0.2]]] * 2).to(device), (2, 4, 5, 5), align_corners=False)
            pooled, indices = F.max_pool2d(x, 2, return_indices=True)
            outputs = [
                F.grid_sample(x, grid, align_corners=False, padding_mode="reflection"), F.max_unpool2d(pooled, indices, 2),
                F.interpolate(x, scale_factor=1.5, mode="bicubic"), F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
                F.pad(x, (1, 2, 0, 3), mode="reflect"), F.pixel_shuffle(x, 2), F.unfold(x, 3), F.fold(F.unfold(x, 2), (6, 6), 2),
                F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_max_pool2d(x, 2), F.lp_pool2d(x, 2, 2), F.local_response_norm(x, 3),
                F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.conv2d(x, torch.ones(4, 1, 3, 3).to(device), groups=4, dilation=2),
            ]
            sum(o.sin().sum() for o in outputs).backward()
            return outputs, x.grad

        self.same(program)

    def test_recurrent_networks(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(5, 3, 4).to(device)
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]))
            out = []
            for net in (nn.LSTM(4, 6, 2, proj_size=3), nn.GRU(4, 5, bidirectional=True), nn.RNN(4, 5, nonlinearity="relu")):
                y, state = net.to(device)(packed)
                padded, lengths = nn.utils.rnn.pad_packed_sequence(y)
                padded.square().sum().backward()
                out += [padded, lengths, state, [p.grad for p in net.parameters()]]
            cell = nn.LSTMCell(4, 3).to(device)
            return out, cell(x[0]), nn.GRUCell(4, 3).to(device)(x[1]), nn.utils.rnn.pad_sequence([x[0], x[1][:2]])

        self.same(program)

    def test_cudnn_switched_on(self) -> None:
        def program(device: str) -> Any:
            torch.backends.cudnn.enabled = True
            torch.backends.cudnn.benchmark = True
            with torch.backends.cudnn.flags(enabled=True, benchmark=True):
                net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ConvTranspose2d(3, 2, 3)).to(device)
                y = net(torch.randn(2, 2, 5, 5).to(device))
                y.square().sum().backward()
                return y, [p.grad for p in net.parameters()], nn.LSTM(3, 4).to(device)(torch.randn(2, 1, 3).to(device))

        self.same(program)

    def test_attention_switched_on(self) -> None:
        def program(device: str) -> Any:
            torch.backends.cuda.enable_flash_sdp(True)
            torch.backends.cuda.enable_mem_efficient_sdp(True)
            try:
                q, k, v = (torch.randn(2, 3, 7, 8).to(device).requires_grad_() for _ in range(3))
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
                y.square().sum().backward()
                heads = nn.MultiheadAttention(8, 2, batch_first=True).to(device).eval()
                fast = heads(q[0].detach(), k[0].detach(), v[0].detach(), need_weights=False)[0]
                return y, q.grad, k.grad, v.grad, fast
            finally:
                torch.backends.cuda.enable_flash_sdp(False)
                torch.backends.cuda.enable_mem_efficient_sdp(False)

        self.same(program)

    def test_fused_modules(self) -> None:
        def program(device: str) -> Any:
            conv, norm = nn.Conv2d(2, 3, 3).to(device).eval(), nn.BatchNorm2d(3).to(device).eval()
            norm.running_mean.copy_(torch.randn(3))
            norm.running_var.copy_(torch.rand(3) + 0.5)
            x, rows = torch.randn(2, 2, 5, 5).to(device), torch.randn(2, 4).to(device)
            parametrized = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3).to(device))
            spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3).to(device)).eval()
            return nn.utils.fusion.fuse_conv_bn_eval(conv, norm)(x), parametrized(rows), spectral(rows).shape

        self.same(program)

    def test_fake_quantization(self) -> None:
        def program(device: str) -> Any:
            x = torch.randn(4, 3).to(device).requires_grad_()
            scale, zero = torch.tensor([0.1, 0.2, 0.05]).to(device), torch.tensor([0, 2, -3], dtype=torch.int32).to(device)
            y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)
            z = torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127)
            (y * z).sum().backward()
            return y, z, x.grad

        self.same(program)

    def test_distributions(self) -> None:
        def program(device: str) -> Any:
            mean, scale = torch.randn(3).to(device), torch.rand(3).to(device) + 0.5
            normal, gamma = torch.distributions.Normal(mean, scale), torch.distributions.Gamma(scale, scale)
            other = torch.distributions.MultivariateNormal(mean, torch.diag(scale))
            point = torch.rand(3).to(device)
            return (
                normal.log_prob(point), gamma.log_prob(point), other.log_prob(point), normal.entropy(), gamma.entropy(),
                torch.distributions.kl_divergence(normal, torch.distributions.Normal(point, 1.0)),
            )

        self.same(program)

    def test_sorting_and_searching(self) -> None:
        def program(device: str) -> Any:
            x = torch.randint(0, 9, (4, 7)).to(device)
            ordered = x.sort(dim=-1, stable=True)
            return (
                ordered, x.topk(3, sorted=True).values, x.unique(return_counts=True, return_inverse=True), x.mode(1).values,
                x.unique_consecutive(dim=0), torch.searchsorted(ordered.values, x), torch.bucketize(x, torch.tensor([2, 5]).to(device)),
                x.bincount(minlength=12) if x.dim() == 1 else x.flatten().bincount(minlength=12), x.float().histc(4), x.kthvalue(2).values,
                x.float().quantile(0.3, dim=1), x.nonzero(), torch.isin(x, torch.tensor([1, 2]).to(device)), x.msort(), x.float().cov(),
                x.logcumsumexp(1) if x.is_floating_point() else x.cumsum(1), x.cummax(1), x.diff(), torch.combinations(x[0, :3]),
            )

        self.same(program)


class TrainingTest(FeatureTest):
    def test_optimizers(self) -> None:
        optimizers = [
            (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}), (torch.optim.SGD, {"fused": True}),
            (torch.optim.Adam, {"amsgrad": True}), (torch.optim.Adam, {"fused": True}), (torch.optim.AdamW, {"foreach": True}),
            (torch.optim.AdamW, {"foreach": False}), (torch.optim.AdamW, {"fused": True, "amsgrad": True}), (torch.optim.Adagrad, {}),
            (torch.optim.Adadelta, {}), (torch.optim.Adamax, {}), (torch.optim.NAdam, {}), (torch.optim.RAdam, {}),
            (torch.optim.RMSprop, {"centered": True, "momentum": 0.5}), (torch.optim.Rprop, {}), (torch.optim.ASGD, {}),
        ]
        for make, options in optimizers:

            def program(device: str) -> Any:
                net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
                optimizer = make(net.parameters(), lr=0.05, **options)
                schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
                for _ in range(3):
                    optimizer.zero_grad()
                    net(torch.ones(2, 3, device=device)).square().sum().backward()
                    norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                    optimizer.step()
                    schedule.step()
                return norm, list(net.parameters()), optimizer.state_dict()["state"]

            with self.subTest(optimizer=make.__name__, options=options):
                self.same(program)

    def test_lbfgs(self) -> None:
        def program(device: str) -> Any:
            x = torch.tensor([1.5, -0.5]).to(device).requires_grad_()
            optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=5)

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
                loss.backward()
                return loss

            optimizer.step(closure)
            return x

        self.same(program, rtol=1e-3, atol=1e-3)

    def test_scaled_gradients(self) -> None:
        """The scaler skips a step whose gradients overflow and halves its scale, also inside fused optimizers."""
        for fused in (False, True):
            p = torch.ones(3, device="cuda", requires_grad=True)
            optimizer = torch.optim.Adam([p], lr=0.1, fused=fused)
            scaler = torch.amp.GradScaler("cuda", init_scale=16.0, growth_interval=1)
            scales = []
            for factor in (1.0, float("inf"), 2.0):
                optimizer.zero_grad()
                scaler.scale((p * factor).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                scales.append((scaler.get_scale(), round(p.detach()[0].item(), 3)))
            self.assertEqual([scale for scale, _ in scales], [32.0, 16.0, 32.0])
            self.assertEqual([value for _, value in scales[:2]], [0.9, 0.9])
            self.assertLess(scales[2][1], 0.9)

    def test_autocast(self) -> None:
        def program(device: str) -> Any:
            net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)).to(device)
            with torch.autocast(device, dtype=torch.bfloat16):
                y = net(torch.randn(2, 2, 5, 5).to(device))
                loss = F.cross_entropy(y, torch.tensor([0, 2]).to(device))
            loss.backward()
            return y.float(), loss.float(), [p.grad for p in net.parameters()]

        self.same(program, rtol=0.1, atol=0.05)

    def test_graph_of_training(self) -> None:
        """A captured step of a fused optimizer does what the same steps do without a graph."""
        ends = []
        for captured in (False, True):
            torch.manual_seed(5)
            net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).cuda()
            x = torch.ones(2, 3, device="cuda")
            optimizer = torch.optim.Adam(net.parameters(), lr=0.05, fused=True, capturable=True)

            def step() -> None:
                optimizer.zero_grad(set_to_none=False)
                net(x).square().sum().backward()
                optimizer.step()

            step()
            graph = torch.cuda.CUDAGraph()
            if captured:
                with torch.cuda.graph(graph):
                    step()
            for _ in range(3):
                graph.replay() if captured else step()
            ends.append([p.detach().cpu() for p in net.parameters()])
        torch.testing.assert_close(ends[1], ends[0], rtol=1e-4, atol=1e-5)

    def test_graphed_callables(self) -> None:
        net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).cuda(), torch.randn(2, 3, device="cuda")
        expected = net(x).detach().clone()
        graphed = torch.cuda.make_graphed_callables(net, (torch.zeros(2, 3, device="cuda"),))
        torch.testing.assert_close(graphed(x), expected)

    def test_state(self) -> None:
        def program(device: str) -> Any:
            net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(device)
            net(torch.randn(5, 3).to(device))
            other = copy.deepcopy(net)
            other.load_state_dict({key: value * 2 for key, value in net.state_dict().items()})
            averaged = torch.optim.swa_utils.AveragedModel(net)
            averaged.update_parameters(other)
            averaged.update_parameters(net)
            vector = nn.utils.parameters_to_vector(other.parameters())
            return vector, averaged.state_dict(), other.half().state_dict(), other.double()(torch.ones(2, 3, device=device).double())

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
