"""ATen on the virtual GPU: every operator on CUDA tensors is computed by torch on the CPU.

The CUDA kernels inside torch are machine code, which the virtual GPU does not execute. So this module replaces them at
torch's CUDA dispatch key: an operator's CUDA arguments are copied to the host in the order of the current stream, the
CPU's kernel of the same operator runs, and its results and the arguments that it changed are copied back. Everything
above that key (autograd, autocast, dispatch modes, printing) and everything that only describes memory (allocation,
views, plain copies) is torch's own and stays as it is. The user's own kernels run as PTX, with all checks on.

Random operators draw from a CPU generator that is seeded with the state of the CUDA generator, and advance that state:
seeding, forking and restoring generators work; the numbers are not those of a real GPU.
"""

import functools
import itertools
import warnings
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch

from . import graphs, nested, runtime, sparse, special, torchscript
from .layout import Layout, layout_of, span_in_bytes

# These describe or allocate memory, or run host code only: torch's own implementation works.
NATIVE = frozenset(
    """
    _efficientzerotensor _fused_sdp_choice _nested_view_from_buffer _reshape_alias as_strided empty.memory_format
    empty_strided is_set_to record_stream resize_ set_ set_.source_Storage set_.source_Storage_storage_offset
    set_.source_Tensor unfold view view_as_complex view_as_real _use_cudnn_ctc_loss _use_cudnn_ctc_loss.Tensor
    _use_miopen_ctc_loss _use_miopen_ctc_loss.Tensor
    """.split()
)
# Operators without a kernel of their own for CUDA, whose common implementation would launch one of torch's.
COMPOSITE = (
    "convolution_backward", "convolution_overrideable", "_convolution", "ldexp.Tensor", "ldexp.out", "ldexp_",
    "conj_physical_",
)  # fmt: skip
# Arguments that may be on the CPU beside CUDA tensors.
MIXED = (
    "_index_put_impl_", "index.", "index_put", "_unsafe_index", "_foreach", "_fused_ad", "_fused_sgd", "_ctc_loss",
    "_pack_padded", "_amp_", "_nested", "_jagged", "_padded_dense", "repeat_interleave", "_assert",
)  # fmt: skip
# Operators that change arguments without saying so in their schema: where those are, and the argument that decides it.
UNDECLARED_WRITES: Dict[str, Tuple[Set[int], Optional[int]]] = {
    "native_batch_norm": ({3, 4}, 5),  # the running mean and variance, when training
    "native_batch_norm.out": ({3, 4}, 5),
    "batch_norm_update_stats": ({1, 2}, None),
}
# In-place operators that do not look at what they overwrite.
OVERWRITING = ("fill_", "zero_", "normal_", "uniform_", "random_", "exponential_", "geometric_", "log_normal_", "cauchy_")

_library: List[torch.library.Library] = []  # keeps the registrations alive


def install() -> None:
    """Registers the kernels. Calling it again does nothing."""
    if _library:
        return
    library = torch.library.Library("aten", "IMPL")
    _library.append(library)
    native_copy = _native_kernel("aten::copy_")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)  # torch 2.11
        for name in _registered("CUDA") - NATIVE | _registered("CompositeExplicitAutograd").intersection(COMPOSITE):
            library.impl(name, _kernel(name), "CUDA", allow_override=True)
        for key, native in (*((key, sparse.NATIVE) for key in sparse.KEYS), (nested.KEY, nested.NATIVE)):
            for name in _registered(key) - native:
                library.impl(name, _kernel(name), key, allow_override=True)
        for name, kernel in (
            ("copy_", functools.partial(_copy, native_copy)),
            ("zero_", functools.partial(_zero, Operator("zero_"))),
        ):
            library.impl(name, torchscript.not_traced(kernel), "CUDA", allow_override=True)
    runtime.library().assay_frees_wait(0)  # torch's own allocator would keep what is freed
    graphs.install()
    torchscript.install()
    _profile_without_cupti()
    _count_devices_without_nvml()
    # cuDNN and the fused attention kernels are machine code, too: torch's own paths without them end in operators
    # that the CPU has.
    _keep_cudnn_off()
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


def _profile_without_cupti() -> None:
    """CUPTI, with which torch profiles GPUs, needs the driver's own tables. Without it torch times with events."""
    supported = torch.autograd._supported_activities() - {torch.autograd.ProfilerActivity.CUDA}
    for module in (torch.autograd, torch.autograd.profiler, torch.profiler):
        module._supported_activities = lambda: supported


def _count_devices_without_nvml() -> None:
    """NVML, which torch asks before the runtime, knows the GPUs of the machine and not the virtual one."""
    torch.cuda._device_count_nvml = lambda: -1  # torch then asks the runtime


def _keep_cudnn_off() -> None:
    """Also if the program switches it on, which `torch.backends.cudnn.flags()` does as well."""
    torch.backends.cudnn.enabled = False
    torch._C._set_cudnn_enabled = lambda enabled: None
    type(torch.backends.cudnn).__dict__["enabled"].setter = lambda enabled: None


def _registered(key: str) -> Set[str]:
    """The operators that have a kernel of their own for a dispatch key."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name[len("aten::") :] for name in names if name.startswith("aten::")}


def _native_kernel(name: str) -> Optional[Callable]:
    """torch's own CUDA kernel of an operator; None where this version of torch does not give it out."""
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is None:
        return None
    kernel = get_kernel(name, "CUDA")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    return functools.partial(kernel.call_boxed, keys)


def _kernel(name: str) -> Callable:
    """The kernel of an operator, which is looked at when it is first called."""
    operator = None

    @torchscript.not_traced
    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal operator
        if operator is None:
            operator = Operator(name)
        try:
            return operator(args, kwargs)
        except (RuntimeError, IndexError, ValueError) as error:
            raise error.with_traceback(None)  # as short as where torch's own kernel raises it

    return kernel


class Operator:
    """One overload of an ATen operator, computed on the CPU."""

    def __init__(self, name: str) -> None:
        packet, _, overload = name.partition(".")
        self.name = name
        self.overload = getattr(getattr(torch.ops.aten, packet), overload or "default")
        self.compute = special.IMPLEMENTATIONS.get(name, self.overload)
        arguments = self.overload._schema.arguments
        # Python kernels get plain numbers where an expression had one; only some overloads take them for tensors.
        self.for_numbers = self.compute
        if self.compute is self.overload and not torch._C._should_allow_numbers_as_tensors(packet):
            self.for_numbers = getattr(torch.ops.aten, packet)
        self.tensors_at = [at for at, a in enumerate(arguments) if str(a.type) == "Tensor"]
        self.written_at = {
            at for at, a in enumerate(arguments) if not a.kwarg_only and a.alias_info and a.alias_info.is_write
        }
        self.undeclared_writes, self.decided_by = UNDECLARED_WRITES.get(name, (set(), None))
        self.written_names = {a.name for a in arguments if a.alias_info and a.alias_info.is_write}
        self.overwritten_names = {a.name for a in arguments if a.is_out}
        self.overwrites_self = name.startswith(OVERWRITING)
        self.is_random = torch.Tag.nondeterministic_seeded in self.overload.tags
        # Whether torch waits for the device, to know the size of a result or to return a number.
        self.is_index = "index" in packet
        returns = [str(r.type) for r in self.overload._schema.returns]
        self.waits = not self.is_index and (
            torch.Tag.dynamic_output_shape in self.overload.tags or (len(returns) == 1 and "Tensor" not in returns[0])
        )
        self.generator_at = next((at for at, a in enumerate(arguments) if a.name == "generator"), None)
        self.allows_mixed = name.startswith(MIXED)

    def __call__(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        with torch._C.DisableTorchFunction():
            call = Call(self)
            if self.waits or (self.is_index and _has_mask(args)):
                runtime.synchronize(call.stream)  # as torch does there on a GPU
            written_at = self.written_at
            if self.undeclared_writes and (self.decided_by is None or args[self.decided_by]):
                written_at = written_at | self.undeclared_writes
            host_args = [
                call.to_host(arg, at in written_at, at == 0 and self.overwrites_self)
                for at, arg in enumerate(args)
            ]
            host_kwargs = {
                key: call.to_host(value, key in self.written_names, key in self.overwritten_names)
                for key, value in kwargs.items()
            }
            result = self._run(host_args, host_kwargs, call)
            if call.recording is not None:
                call.recording.add(lambda: self._run(host_args, host_kwargs, call), result, call.stream)
            call.write_back()
            return call.to_device(result)

    def _run(self, args: List[Any], kwargs: Dict[str, Any], call: "Call") -> Any:
        compute = self.compute
        if any(at < len(args) and isinstance(args[at], (int, float, complex)) for at in self.tensors_at):
            compute = self.for_numbers
        try:
            if not self.is_random:
                return compute(*args, **kwargs)
            seed = _next_seed(call.generator, call.device, call.recording is not None)
            if self.generator_at is None:
                return _with_default_seed(seed, lambda: compute(*args, **kwargs))
            generator = torch.Generator("cpu").manual_seed(seed)
            if self.generator_at < len(args):
                args = [*args[: self.generator_at], generator, *args[self.generator_at + 1 :]]
            else:
                kwargs = dict(kwargs, generator=generator)
            return compute(*args, **kwargs)
        except NotImplementedError as error:
            if "Could not run" not in str(error):
                raise
            raise runtime.Unsupported(
                f"aten::{self.name} has a CUDA kernel only, which the virtual GPU cannot run: torch has none for the CPU"
            ) from None
        except RuntimeError as error:
            wider = special.wider_type(str(error))
            if wider is None or self.written_names:
                raise
            return special.run_wider(compute, args, kwargs, *wider)


class Call:
    """One call of an operator: its tensors on the device beside those on the host."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.device: torch.device = torch.device("cuda", torch._C._cuda_getDevice())
        self.stream: int = torch._C._cuda_getCurrentRawStream(self.device.index)
        self.recording = graphs.recording(self.stream)
        self.generator: Optional[torch.Generator] = None
        self.pairs: Dict[int, Tuple[torch.Tensor, torch.Tensor, Optional[Layout]]] = {}  # by id of the host tensor
        self.hosts: Dict[int, torch.Tensor] = {}  # by id of the device tensor
        self.written: List[int] = []  # ids of host tensors

    def to_host(self, value: Any, is_written: bool, is_overwritten: bool) -> Any:
        """The argument for the CPU's kernel."""
        if isinstance(value, torch.Tensor):
            if value.is_cuda:
                return self._tensor_to_host(value, is_written, is_overwritten)
            if value.dim() > 0 and not self.operator.allows_mixed:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{self.device} and {value.device}! (aten::{self.operator.name})"
                )
            return value
        if isinstance(value, (list, tuple)):
            return [self.to_host(item, is_written, is_overwritten) for item in value]
        if isinstance(value, torch.device) and value.type == "cuda":
            return torch.device("cpu")
        if isinstance(value, torch.Generator):
            self.generator = value
        return value

    def _tensor_to_host(self, tensor: torch.Tensor, is_written: bool, is_overwritten: bool) -> torch.Tensor:
        host = self.hosts.get(id(tensor))
        if host is None:
            if tensor.is_nested:
                host, layout = nested.moved(tensor, lambda part: read(part, self.stream)[0]), None
            elif tensor.layout != torch.strided:
                host, layout = sparse.moved(tensor, lambda part: read(part, self.stream)[0]), None
            else:
                host, layout = read(tensor, self.stream, not is_overwritten)
            if self.recording is not None:
                host.zero_()  # read when the graph runs
            self.hosts[id(tensor)] = host
            self.pairs[id(host)] = tensor, host, layout
        if is_written:
            self.written.append(id(host))
        return host

    def write_back(self) -> None:
        """Copies the arguments that the operator has changed to the device."""
        for key in self.written:
            tensor, host, layout = self.pairs[key]
            if tensor.is_nested:
                tensor, host = tensor.values(), host.values()
            if tensor.layout != torch.strided:
                tensor.copy_(new_on_device(host, self.device, self.stream))
                continue
            if host.size() != tensor.size():  # an out= argument of another size
                span = span_in_bytes(tuple(host.size()), host.stride(), host.element_size())
                tensor.resize_(span // host.element_size()).as_strided_(host.size(), host.stride())
                layout = layout_of(tuple(host.size()), host.stride(), host.element_size())
            write(tensor, host, layout, self.stream)

    def to_device(self, value: Any) -> Any:
        """What the operator returns, for the caller."""
        if isinstance(value, torch.Tensor):
            pair = self.pairs.get(id(value))
            return pair[0] if pair is not None else new_on_device(value, self.device, self.stream)
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_device(item) for item in value)
        return value


def read(tensor: torch.Tensor, stream: int, with_values: bool = True) -> Tuple[torch.Tensor, Optional[Layout]]:
    """A host tensor with the values of a CUDA tensor, and the layout that was used (None: contiguous)."""
    size, layout = tensor.size(), None
    if tensor.is_contiguous():
        host = torch.empty(size, dtype=tensor.dtype, device="cpu")
        span = tensor.numel() * tensor.element_size()
        if with_values and span:
            runtime.fetch(host.data_ptr(), span, tensor.data_ptr(), span, span, 1, stream)
    else:
        layout = layout_of(tuple(size), tensor.stride(), tensor.element_size())
        host = torch.empty_strided(size, layout.host_strides, dtype=tensor.dtype, device="cpu")
        if with_values or layout.has_foreign_bytes:
            here, there = host.data_ptr(), tensor.data_ptr()
            for r in layout.rows:
                runtime.fetch(
                    here + r.host_offset, r.host_pitch, there + r.device_offset, r.device_pitch, r.width, r.height, stream
                )
    if tensor.is_conj():
        host = host.conj()
    if tensor.is_neg():
        host = torch._neg_view(host)
    return host, layout


def write(tensor: torch.Tensor, host: torch.Tensor, layout: Optional[Layout], stream: int) -> None:
    """Copies a host tensor of the same size to a CUDA tensor; `layout` is that with which it was read."""
    if tensor.numel() == 0:
        return
    strides = tensor.stride() if layout is None else layout.host_strides
    if host.stride() != strides or host.is_conj() != tensor.is_conj() or host.is_neg() != tensor.is_neg():
        layout = layout_of(tuple(tensor.size()), tensor.stride(), tensor.element_size())
        compact, _ = read(tensor, stream, layout.has_foreign_bytes)
        host = compact.copy_(host)
    there, here = tensor.data_ptr(), host.data_ptr()
    if layout is None:
        runtime.copy(there, here, tensor.numel() * tensor.element_size(), runtime.HOST_TO_DEVICE, stream)
        return
    for r in layout.rows:
        runtime.store(
            there + r.device_offset, r.device_pitch, here + r.host_offset, r.host_pitch, r.width, r.height, stream
        )


def new_on_device(host: torch.Tensor, device: torch.device, stream: int) -> torch.Tensor:
    """A new CUDA tensor with the values and strides of a host tensor."""
    if host.is_nested:
        return nested.moved(host, lambda part: new_on_device(part, device, stream))
    if host.layout != torch.strided:
        return sparse.moved(host, lambda part: new_on_device(part, device, stream))
    host = host.resolve_conj().resolve_neg()
    tensor = torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=device)
    layout = layout_of(tuple(host.size()), host.stride(), host.element_size())
    if layout.span:
        runtime.copy(tensor.data_ptr(), host.data_ptr(), layout.span, runtime.HOST_TO_DEVICE, stream)
    return tensor


def _has_mask(args: Tuple[Any, ...]) -> bool:
    """Whether a list of indices among the arguments has a mask, whose true elements torch has to count."""
    masks = (torch.bool, torch.uint8)
    lists = [arg for arg in args if isinstance(arg, (list, tuple))]
    return any(isinstance(item, torch.Tensor) and item.dtype in masks for items in lists for item in items)


# ---- Copies and clearing ----


def _copy(
    native: Optional[Callable], destination: torch.Tensor, source: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor:
    """aten::copy_ between any two of device and host, any strides and dtypes."""
    with torch._C.DisableTorchFunction():
        if _is_plain_copy(destination, source):
            if native is not None and (destination.is_cuda or destination.is_pinned()):
                return native(destination, source, non_blocking)
            return _plain_copy(destination, source)
        stream = torch._C._cuda_getCurrentRawStream((destination if destination.is_cuda else source).device.index)
        recording = graphs.recording(stream)
        values = read(source, stream)[0] if source.is_cuda else source
        if not destination.is_cuda:
            if recording is not None:
                raise RuntimeError(graphs.NOT_PERMITTED)
            runtime.synchronize(stream)
            return destination.copy_(values)
        host, layout = read(destination, stream, False)
        host.copy_(values)
        if recording is not None:
            recording.add(lambda: host.copy_(values), host, stream)
        write(destination, host, layout, stream)
        return destination


def _is_plain_copy(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.size() != b.size() or a.is_conj() != b.is_conj() or a.is_neg() != b.is_neg():
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    if a.stride() != b.stride():
        return False
    layout = layout_of(tuple(a.size()), a.stride(), a.element_size())
    return layout.span == a.numel() * a.element_size()


def _plain_copy(destination: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """A copy that waits for the device with Python's global lock released, as a graph that runs may need it."""
    stream = torch._C._cuda_getCurrentRawStream((destination if destination.is_cuda else source).device.index)
    if graphs.recording(stream) is not None:
        raise RuntimeError(graphs.NOT_PERMITTED)
    size = destination.numel() * destination.element_size()
    if size:
        runtime.copy(destination.data_ptr(), source.data_ptr(), size, runtime.ANY_DIRECTION, stream)
    if not (destination.is_cuda and source.is_cuda):
        runtime.synchronize(stream)
    return destination


def _zero(general: Operator, tensor: torch.Tensor) -> torch.Tensor:
    """aten::zero_."""
    if not tensor.is_contiguous():
        return general((tensor,), {})
    size = tensor.numel() * tensor.element_size()
    if size:
        stream = torch._C._cuda_getCurrentRawStream(tensor.device.index)
        runtime.clear(tensor.data_ptr(), size, stream)
    return tensor


# ---- Random numbers ----


_draws = itertools.count(1 << 40)  # of graphs, which have no state of a generator to move on


def _next_seed(generator: Optional[torch.Generator], device: torch.device, in_graph: bool) -> int:
    """A seed from the state of the CUDA generator, which moves on by what the smallest random kernel takes."""
    if generator is None or generator.device.type != "cuda":
        generator = torch.cuda.default_generators[device.index]
    if in_graph:
        offset = next(_draws)
    else:
        offset = generator.get_offset()
        generator.set_offset(offset + 4)
    mixed = generator.initial_seed() * 0x9E3779B97F4A7C15 + (offset + 1) * 0xBF58476D1CE4E5B9
    return (mixed ^ (mixed >> 31)) % (1 << 63)


def _with_default_seed(seed: int, compute: Callable) -> Any:
    """Runs an operator that draws from the CPU's default generator, which keeps its own state."""
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(seed)
    try:
        return compute()
    finally:
        generator.set_state(state)
