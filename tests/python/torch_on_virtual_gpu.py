"""What PyTorch programs do with CUDA tensors, compared with the same on the CPU.

test_torch.py runs this module under `assay run`, so that `cuda` is the virtual GPU.
"""

import copy
import ctypes
import io
import threading
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

# y[i] += 1 for i < n.
INCREMENT = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry increment(.param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p, %r2, %r1;
  @%p ret;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f, [%rd3];
  add.f32 %f, %f, 0f3F800000;
  st.global.f32 [%rd3], %f;
  ret;
}
\0"""


class Dim(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Kernel:
    """A kernel from PTX, launched on torch's current stream."""

    def __init__(self, text: bytes, name: bytes) -> None:
        self.runtime = ctypes.CDLL("libcudart.so.13")
        library, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.runtime.cudaLibraryLoadData(ctypes.byref(library), text, None, None, 0, None, None, 0)
        assert status == 0, status
        assert self.runtime.cudaLibraryGetKernel(ctypes.byref(self.handle), library, name) == 0
        self.runtime.cudaLaunchKernel.argtypes = [
            ctypes.c_void_p, Dim, Dim, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

    def __call__(self, y: torch.Tensor, n: int) -> None:
        values = ctypes.c_uint64(y.data_ptr()), ctypes.c_uint32(n)
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        stream = torch.cuda.current_stream().cuda_stream
        status = self.runtime.cudaLaunchKernel(
            self.handle, Dim((n + 31) // 32, 1, 1), Dim(32, 1, 1), arguments, 0, stream)
        assert status == 0, status


class VirtualGpuTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(7)

    def assert_same(self, on_gpu: torch.Tensor, on_cpu: torch.Tensor, **tolerance: float) -> None:
        self.assertEqual(on_gpu.device.type, "cuda")
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, check_stride=True, **tolerance)


class TensorTest(VirtualGpuTest):
    def test_device(self) -> None:
        self.assertTrue(torch.cuda.is_available())
        self.assertEqual(torch.cuda.device_count(), 1)
        self.assertIn("NVIDIA", torch.cuda.get_device_name())
        self.assertEqual(torch.ones(1, device="cuda").device, torch.device("cuda", 0))

    def test_elementwise_with_strides(self) -> None:
        x = torch.randn(6, 5, 4)
        views = [
            lambda t: t, lambda t: t.t() if t.dim() == 2 else t.transpose(0, 2), lambda t: t[::2, 1:, 3],
            lambda t: t[:, 2:3].expand(6, 5, 4), lambda t: t[..., 0], lambda t: t.unfold(1, 3, 1), lambda t: t[5:5],
            lambda t: t.permute(1, 2, 0)[1:4, ::3, ::2],
        ]
        for view in views:
            self.assert_same(view(x.cuda()) * 2 + 1, view(x) * 2 + 1)

    def test_views_share_memory(self) -> None:
        for write in (
            lambda t: t[1:3, ::2].fill_(9), lambda t: t.t()[2].add_(5), lambda t: t.view(-1)[::7].zero_(),
            lambda t: t.diagonal().mul_(3), lambda t: t[:, 1:3].copy_(torch.full((1, 2), 4.0)),
        ):
            on_cpu, on_gpu = torch.arange(36.0).reshape(6, 6), torch.arange(36.0, device="cuda").reshape(6, 6)
            write(on_cpu)
            write(on_gpu)
            self.assert_same(on_gpu, on_cpu)

    def test_bytes_between_the_elements_stay_uninitialised(self) -> None:
        x = torch.empty(4, 8, device="cuda")
        x[:, 0] = 1
        x[:, 0] += 1
        self.assert_same(x[:, 0].contiguous(), torch.full((4,), 2.0))

    def test_many_rows(self) -> None:
        x = torch.randn(300, 3, 3, 4)
        on_gpu = x.cuda()
        on_gpu[:, ::2, ::2, ::3] *= 2
        x[:, ::2, ::2, ::3] *= 2
        self.assert_same(on_gpu, x)

    def test_out(self) -> None:
        x, y = torch.randn(4, 4), torch.empty(0)
        on_gpu = torch.empty(0, device="cuda")
        self.assertIs(torch.add(x.cuda(), 1, out=on_gpu), on_gpu)
        self.assert_same(on_gpu, torch.add(x, 1, out=y))
        columns = torch.zeros(4, 8, device="cuda")
        torch.mul(x.cuda(), 2, out=columns[:, ::2])
        self.assert_same(columns[:, ::2].contiguous(), x * 2)
        self.assertEqual(columns[:, 1::2].abs().sum().item(), 0)

    def test_promotion(self) -> None:
        i, h, f = torch.arange(3), torch.ones(3, dtype=torch.float16), torch.ones(())
        for compute in (
            lambda i, h, f: i + 1.5, lambda i, h, f: h * f, lambda i, h, f: i / 2, lambda i, h, f: i % 2 == 1,
            lambda i, h, f: f + 2, lambda i, h, f: f.double() + f, lambda i, h, f: i.remainder(2) - h,
            lambda i, h, f: 2 ** i, lambda i, h, f: torch.where(i > 0, h, 0.5),
        ):
            self.assert_same(compute(i.cuda(), h.cuda(), f.cuda()), compute(i, h, f))

    def test_casts(self) -> None:
        x = torch.tensor([0.1, -3.7, 300.0, 1e5, float("nan"), -0.0])
        for dtype in (
            torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float64, torch.complex64,
        ):
            on_gpu = x.cuda().to(dtype)
            self.assertEqual(on_gpu.dtype, dtype)
            torch.testing.assert_close(
                on_gpu.to(torch.complex128).cpu(), x.to(dtype).to(torch.complex128), equal_nan=True, rtol=0, atol=0)
        self.assert_same(x[:3].cuda().int(), x[:3].int())

    def test_complex(self) -> None:
        x = torch.randn(4, dtype=torch.complex64)
        self.assert_same(x.cuda().conj() * 2, x.conj() * 2)
        self.assert_same(torch.view_as_real(x.cuda()), torch.view_as_real(x))
        self.assert_same(torch.fft.ifft(torch.fft.fft(x.cuda())), x)

    def test_indexing(self) -> None:
        x, index = torch.randn(5, 4), torch.tensor([3, 0, 3])
        mask = x > 0
        for compute in (
            lambda x, i, m: x[i], lambda x, i, m: x[m], lambda x, i, m: x[i, 1:], lambda x, i, m: x[:, [1, 2]],
            lambda x, i, m: x.gather(0, i[:, None]), lambda x, i, m: x.index_select(0, i),
            lambda x, i, m: torch.zeros_like(x).scatter_add_(0, i[:, None].expand(3, 4), x[:3]),
            lambda x, i, m: x.clone().index_put_((i,), x[:3], accumulate=True),
            lambda x, i, m: x.clone().masked_fill_(m, -1), lambda x, i, m: m.nonzero(), lambda x, i, m: x.argmax(1),
            lambda x, i, m: x.topk(2, 1).values, lambda x, i, m: x.sort(0, descending=True).indices,
            lambda x, i, m: torch.unique(i, return_inverse=True)[1], lambda x, i, m: x.cumsum(1),
        ):
            self.assert_same(compute(x.cuda(), index.cuda(), mask.cuda()), compute(x, index, mask))
        self.assert_same(x.cuda()[index], x[index])  # an index on the CPU is allowed

    def test_sparse(self) -> None:
        x = torch.randn(4, 5).relu()
        for convert in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr):
            on_gpu, on_cpu = convert(x.cuda()), convert(x)
            self.assert_same(on_gpu @ torch.ones(5, 2, device="cuda"), on_cpu @ torch.ones(5, 2))
            self.assert_same((on_gpu * 2).to_dense(), (on_cpu * 2).to_dense())
        weight = torch.ones(5, 2, device="cuda", requires_grad=True)
        F.embedding(torch.tensor([1, 1], device="cuda"), weight, sparse=True).sum().backward()
        torch.optim.SGD([weight], lr=0.5).step()
        self.assertEqual(weight[:2].tolist(), [[1, 1], [0, 0]])

    def test_printing_and_items(self) -> None:
        x = torch.arange(4.0, device="cuda") / 3
        self.assertEqual(repr(x), "tensor([0.0000, 0.3333, 0.6667, 1.0000], device='cuda:0')")
        self.assertEqual(x.tolist(), (torch.arange(4.0) / 3).tolist())
        self.assertTrue(torch.equal(x, x.clone()))
        self.assertTrue(torch.allclose(x, x + 1e-9))
        self.assertEqual(int(x[3]), 1)
        self.assertTrue(bool((x >= 0).all()))
        self.assertEqual(f"{x[1].item():.3f}", "0.333")

    def test_saving_and_numpy(self) -> None:
        x, file = torch.randn(3, 3, device="cuda"), io.BytesIO()
        torch.save({"x": x}, file)
        file.seek(0)
        self.assertTrue(torch.equal(torch.load(file)["x"], x))
        self.assertTrue(torch.equal(copy.deepcopy(x), x))
        with self.assertRaisesRegex(TypeError, "can't convert cuda:0 device type tensor to numpy"):
            x.numpy()

    def test_random_numbers(self) -> None:
        torch.cuda.manual_seed(3)
        first, second = torch.randn(64, device="cuda"), torch.rand(64, device="cuda")
        state = torch.cuda.get_rng_state()
        third = torch.randint(0, 1000, (64,), device="cuda")
        torch.cuda.set_rng_state(state)
        self.assertTrue(torch.equal(third, torch.randint(0, 1000, (64,), device="cuda")))
        torch.cuda.manual_seed(3)
        self.assertTrue(torch.equal(first, torch.randn(64, device="cuda")))
        self.assertFalse(torch.equal(first, torch.randn(64, device="cuda")))
        self.assertTrue(0 <= second.min() and second.max() < 1)
        before = torch.random.get_rng_state()
        F.dropout(first, 0.5)
        self.assertTrue(torch.equal(before, torch.random.get_rng_state()))  # the CPU's numbers are not touched
        draw = lambda: torch.randperm(9, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        self.assertTrue(torch.equal(draw(), draw()))
        kept = F.dropout(torch.ones(1000, device="cuda"), 0.25)
        self.assertTrue(600 < (kept > 0).sum() < 900)

    def test_errors(self) -> None:
        x = torch.ones(3, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "same device"):
            x + torch.ones(3)
        with self.assertRaisesRegex(RuntimeError, "must match the size"):
            x + torch.ones(4, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "more than one element of the written-to tensor"):
            x[:1].expand(5).add_(1)
        with self.assertRaisesRegex(IndexError, "out of (range|bounds)"):
            x[torch.tensor([7], device="cuda")]
        with self.assertRaisesRegex(NotImplementedError, "CUDA kernel only"):
            torch.ops.aten._masked_scale(x, x.byte(), 1.0)

    def test_default_device(self) -> None:
        torch.set_default_device("cuda")
        try:
            self.assertEqual((torch.ones(3) * torch.arange(3)).sum().item(), 3)
        finally:
            torch.set_default_device("cpu")


class ModuleTest(VirtualGpuTest):
    def assert_same_training(self, module: nn.Module, *inputs: torch.Tensor, rtol: float = 1e-4) -> None:
        """One step of training on both devices gives the same outputs, gradients and parameters."""
        on_gpu = copy.deepcopy(module).cuda()
        results = []
        for model, device in ((module, "cpu"), (on_gpu, "cuda")):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            arguments = [
                x.detach().to(device, copy=True).requires_grad_(x.is_floating_point()) for x in inputs]
            output = model(*arguments)
            output = output[0] if isinstance(output, tuple) else output
            output.square().mean().backward()
            gradients = [x.grad.cpu() for x in arguments if x.grad is not None]
            gradients += [p.grad.cpu() for p in model.parameters() if p.grad is not None]
            optimizer.step()
            state = [value.detach().cpu() for value in model.state_dict().values()]  # parameters and running statistics
            results.append([output.detach().cpu(), *gradients, *state])
        self.assertEqual(len(results[0]), len(results[1]))
        for a, b in zip(*results):
            torch.testing.assert_close(b, a, rtol=rtol, atol=1e-5)

    def test_mlp(self) -> None:
        self.assert_same_training(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(3, 8))

    def test_convolutions(self) -> None:
        net = nn.Sequential(
            nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8),
            nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2))
        self.assert_same_training(net, torch.randn(2, 4, 8, 8))

    def test_channels_last(self) -> None:
        x, conv = torch.randn(2, 4, 5, 5), nn.Conv2d(4, 8, 3)
        x, conv = x.to(memory_format=torch.channels_last), conv.to(memory_format=torch.channels_last)
        y = copy.deepcopy(conv).cuda()(x.cuda())
        self.assertTrue(y.is_contiguous(memory_format=torch.channels_last))
        torch.testing.assert_close(y.cpu(), conv(x))
        self.assertTrue((x.cuda() * 2).is_contiguous(memory_format=torch.channels_last))

    def test_norms(self) -> None:
        self.assert_same_training(nn.Sequential(nn.LayerNorm(12), nn.RMSNorm(12)), torch.randn(5, 12))
        self.assert_same_training(nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm1d(4)), torch.randn(2, 4, 9))

    def test_embedding(self) -> None:
        self.assert_same_training(nn.Embedding(10, 4), torch.tensor([[1, 2, 1], [9, 0, 1]]))

    def test_recurrent(self) -> None:
        self.assert_same_training(nn.LSTM(4, 6, num_layers=2), torch.randn(5, 2, 4))
        self.assert_same_training(nn.GRU(4, 6, bidirectional=True), torch.randn(5, 2, 4))

    def test_transformer(self) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.assert_same_training(layer, torch.randn(2, 5, 8))

    def test_attention(self) -> None:
        q, k, v = torch.randn(3, 2, 2, 6, 4)
        for options in ({}, {"is_causal": True}, {"attn_mask": torch.ones(6, 6).tril() > 0}):
            on_gpu = {key: value.cuda() if isinstance(value, torch.Tensor) else value for key, value in options.items()}
            y = F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), **on_gpu)
            torch.testing.assert_close(y.cpu(), F.scaled_dot_product_attention(q, k, v, **options))

    def test_fused_attention(self) -> None:
        q, k, v = torch.randn(3, 2, 4, 8, 16, dtype=torch.bfloat16)
        mask = torch.randn(8, 8, dtype=torch.bfloat16)
        for backend, options in (
            (SDPBackend.FLASH_ATTENTION, {"is_causal": True}),
            (SDPBackend.EFFICIENT_ATTENTION, {"attn_mask": mask}),
            (SDPBackend.FLASH_ATTENTION, {"enable_gqa": True}),
        ):
            heads = 2 if "enable_gqa" in options else 4
            results = []
            for device in ("cpu", "cuda"):
                on_device = {
                    key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in options.items()}
                tensors = [t.to(device).requires_grad_() for t in (q, k[:, :heads], v[:, :heads])]
                with sdpa_kernel(SDPBackend.MATH if device == "cpu" else backend):
                    y = F.scaled_dot_product_attention(*tensors, **on_device)
                results.append([y, *torch.autograd.grad(y.float().square().sum(), tensors)])
            for a, b in zip(*results):
                torch.testing.assert_close(b.cpu(), a, rtol=0.05, atol=0.05)

    def test_low_precision(self) -> None:
        for dtype in (torch.float16, torch.bfloat16):
            a, b = torch.randn(4, 8, dtype=dtype), torch.randn(8, 3, dtype=dtype)
            self.assert_same(a.cuda() @ b.cuda(), a @ b)
            self.assert_same(torch.softmax(a.cuda(), -1, dtype=torch.float32), torch.softmax(a, -1, dtype=torch.float32))
            logits = a.cuda().requires_grad_()
            F.cross_entropy(logits.float(), torch.arange(4, device="cuda")).backward()
            self.assertEqual(logits.grad.dtype, dtype)

    def test_autocast_and_scaling(self) -> None:
        model, scaler = nn.Linear(4, 4).cuda(), torch.amp.GradScaler("cuda", init_scale=8.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.ones(2, 4, device="cuda")).float().square().sum()
        before = model.weight.detach().clone()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertFalse(torch.equal(before, model.weight))

    def test_optimizers(self) -> None:
        for make in (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.Adam(p, lr=0.1),
            lambda p: torch.optim.Adam(p, lr=0.1, fused=True), lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
            lambda p: torch.optim.RMSprop(p, lr=0.1), lambda p: torch.optim.AdamW(p, lr=0.1, capturable=True),
        ):
            ends = []
            for device in ("cpu", "cuda"):
                p = torch.ones(4, device=device, requires_grad=True)
                try:
                    optimizer = make([p])
                except RuntimeError:  # capturable needs a GPU
                    continue
                for _ in range(2):
                    optimizer.zero_grad()
                    (p * torch.arange(4.0, device=device)).square().sum().backward()
                    try:
                        optimizer.step()
                    except AssertionError:  # capturable needs a GPU
                        continue
                    torch.nn.utils.clip_grad_norm_([p], 1.0)
                ends.append(p.detach().cpu())
            self.assertFalse(torch.equal(ends[-1], torch.ones(4)))

    def test_custom_function_and_checkpoint(self) -> None:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                assert ctx.saved_tensors[0].is_cuda
                return gradient * 2

        x = torch.ones(3, device="cuda", requires_grad=True)
        torch.utils.checkpoint.checkpoint(Double.apply, x, use_reentrant=False).sum().backward()
        self.assertEqual(x.grad.tolist(), [2, 2, 2])
        self.assertTrue(torch.autograd.gradcheck(torch.sin, torch.ones(2, device="cuda", dtype=torch.float64).requires_grad_()))

    def test_functional_transforms(self) -> None:
        x = torch.randn(3, 4)
        self.assert_same(torch.func.vmap(torch.dot)(x.cuda(), x.cuda()), torch.func.vmap(torch.dot)(x, x))
        self.assert_same(torch.func.grad(lambda t: t.sin().sum())(x.cuda()), x.cos())


class StreamTest(VirtualGpuTest):
    def setUp(self) -> None:
        super().setUp()
        self.increment = Kernel(INCREMENT, b"increment")

    def test_kernels_and_operators_take_turns(self) -> None:
        x = torch.zeros(100, device="cuda")
        for _ in range(3):
            self.increment(x, 100)
            x *= 2
        self.assertEqual(x.unique().tolist(), [14])

    def test_streams_and_events(self) -> None:
        x, stream = torch.zeros(64, device="cuda"), torch.cuda.Stream()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            start.record()
            self.increment(x, 64)
            y = x + 1
            end.record()
        torch.cuda.current_stream().wait_event(end)
        self.assertEqual((y + x).sum().item(), 3 * 64)
        end.synchronize()
        self.assertTrue(end.query())
        self.assertGreaterEqual(start.elapsed_time(end), 0)
        torch.cuda.synchronize()

    def test_pinned_memory(self) -> None:
        source = torch.arange(1000.0).pin_memory()
        self.assertTrue(source.is_pinned())
        x = source.to("cuda", non_blocking=True)
        self.increment(x, 1000)
        back = torch.empty(1000, pin_memory=True)
        back.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(back, torch.arange(1000.0) + 1))

    def test_graph_of_kernels(self) -> None:
        x, graph = torch.zeros(64, device="cuda"), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            self.increment(x, 64)
        self.assertEqual(x.sum().item(), 0)
        for _ in range(3):
            graph.replay()
        self.assertEqual(x.sum().item(), 3 * 64)

    def test_graph_of_operators(self) -> None:
        model, x, graph = nn.Linear(4, 2).cuda(), torch.zeros(3, 4, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            middle = torch.empty(3, 4, device="cuda")
            middle.copy_(x)
            self.increment(middle, 12)
            y = model(middle.t().contiguous().t() * 2)
            noise = torch.rand(8, device="cuda")
        seen = set()
        for value in range(3):
            x.fill_(value)
            graph.replay()
            self.assertTrue(torch.allclose(y, model(torch.full((3, 4), 2.0 * (value + 1), device="cuda"))))
            seen.add(noise[0].item())
        self.assertEqual(len(seen), 3)

    def test_graph_of_training(self) -> None:
        model, x = nn.Linear(4, 2).cuda(), torch.ones(3, 4, device="cuda")
        optimizer, graph = torch.optim.SGD(model.parameters(), lr=0.01), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
        losses = []
        for _ in range(3):
            graph.replay()
            losses.append(loss.item())
        self.assertTrue(losses[0] > losses[1] > losses[2], losses)

    def test_graph_that_waits(self) -> None:
        x, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "during capture"):
            with torch.cuda.graph(graph):
                x.sum().item()
        self.assertEqual(x.sum().item(), 3)

    def test_profiler(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            torch.ones(4, device="cuda").sum()
        self.assertIn("aten::sum", [event.key for event in profile.key_averages()])

    def test_loaders(self) -> None:
        loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, num_workers=1, pin_memory=True)
        self.assertEqual([batch.cuda(non_blocking=True).sum().item() for batch in loader], [6, 22])

    def test_threads(self) -> None:
        results = []

        def work() -> None:
            x = torch.ones(10, device="cuda", requires_grad=True)
            (x * 3).sum().backward()
            results.append(x.grad.sum().item())

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [30, 30, 30])


if __name__ == "__main__":
    unittest.main()
