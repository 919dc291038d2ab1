"""The problem's PyTorch code evaluated exactly: in float64, on the CPU.

Two modes work together. The function mode stands above autograd: it turns devices into the CPU, widens
tensors that exist in f32, bf16 or f16 (parameters of a module, constants of a file), and answers questions
about types as the problem would see them, so that `y.to(x.dtype)` means what it says. The dispatch mode
stands below autograd: there every floating value is float64. A cast to f32, bf16 or f16 leaves the value
alone and is noted as the tensor's declared type; casts to fp8 and to integers are what they are.

    evaluation = Evaluation()
    with evaluation:
        y = run(evaluation.input(x, torch.bfloat16))
"""
import contextlib
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .precision import FP8, WIDENED, narrowed, round_to
from .shadows import Shadows
from .tree import tensors_in, tree_map

Tensor = torch.Tensor
_TWIN = "_assay_twin"

_RANDOM = {"rand", "randn", "rand_like", "randn_like", "normal", "normal_functional", "uniform", "bernoulli",
           "exponential", "geometric", "cauchy", "log_normal", "random", "randint", "randint_like",
           "multinomial", "randperm", "native_dropout", "poisson", "_fused_dropout", "rrelu_with_noise"}
_CONSTANTS = {"full", "full_like", "new_full", "scalar_tensor", "fill"}
# Operators that share their operand's storage, or change only how it is looked at.
_MOVES_NOTHING = {"_unsafe_view", "_reshape_alias", "detach", "alias", "lift_fresh", "lift", "detach_", "t_",
                  "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_", "set_",
                  "requires_grad_", "rename_"}
# What autocast runs in its narrow type.
_AUTOCAST = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "conv1d", "conv2d",
             "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "einsum", "bilinear",
             "__matmul__", "__rmatmul__", "scaled_dot_product_attention"}


class Operator:
    """What a schema says about an operator, looked up once."""

    _known: Dict[Any, "Operator"] = {}

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name.split("::")[1]
        self.arguments = [a.name for a in schema.arguments]
        self.written = [i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write]
        self.is_view = func.is_view or self.name in _MOVES_NOTHING
        self.in_place = self.name.endswith("_") and not self.name.endswith("__") and bool(self.written)
        self.base_name = self.name[:-1] if self.in_place else self.name

    @classmethod
    def of(cls, func) -> "Operator":
        found = cls._known.get(func)
        if found is None:
            found = cls._known[func] = cls(func)
        return found

    def bound(self, args, kwargs) -> Dict[str, Any]:
        """Arguments by name, without defaults."""
        named = dict(zip(self.arguments, args))
        named.update(kwargs)
        return named


def promoted(shadows: Shadows, tensors: List[Tensor]) -> torch.dtype:
    """The floating type that torch would give the result of these operands."""
    result: Optional[torch.dtype] = None
    for dimensioned in (True, False):
        for t in tensors:
            if (t.ndim > 0) != dimensioned:
                continue
            declared = shadows.declared(t)
            if declared in FP8 or not declared.is_floating_point:
                continue
            result = declared if result is None else torch.promote_types(result, declared)
        if result is not None:
            return result
    return torch.get_default_dtype()


class Evaluation:
    """One run of a reference. Enter it, call the problem's code, and leave it."""

    def __init__(self) -> None:
        self.shadows = Shadows()
        self.autocast: Optional[torch.dtype] = None
        self.fused: Optional[torch.dtype] = None  # the type of values inside one fused operator
        self._functions = _Functions(self)
        self._dispatch = _Dispatch(self)
        self._stack: Optional[contextlib.ExitStack] = None

    def __enter__(self) -> "Evaluation":
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(_replaced(self))
        self._stack.enter_context(self._dispatch)
        self._stack.enter_context(self._functions)
        return self

    def __exit__(self, *error) -> None:
        stack, self._stack = self._stack, None
        stack.__exit__(*error)

    # ---- tensors in and out ----

    def input(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        """A tensor that the reference takes for one of type `dtype`; `value` is already rounded to it."""
        with _disable_current_modes():
            if dtype in WIDENED or dtype == torch.float64:
                made = value.to(torch.float64).clone()
                self.shadows.declare(made, dtype)
                return made
            if dtype in FP8:
                return value.to(torch.float32).to(dtype)
            return value.to(dtype)

    def widened(self, t: Tensor) -> Tensor:
        """The float64 twin of a tensor of a narrower type, always the same one."""
        if t.dtype not in WIDENED:
            return t
        twin = t.__dict__.get(_TWIN) if hasattr(t, "__dict__") else None
        if twin is None or twin.shape != t.shape or self.shadows.declared(twin) != t.dtype:
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                twin = t.detach().to(torch.float64)
                twin.requires_grad_(t.requires_grad)
            self.shadows.declare(twin, t.dtype)
            setattr(t, _TWIN, twin)
        return twin

    def converted(self, t: Tensor, dtype: Optional[torch.dtype], copy: bool = False) -> Tensor:
        """`t.to(dtype)` as the problem means it."""
        if dtype is None or dtype == self.shadows.declared(t):
            return t.clone() if copy else t
        return t.to(dtype, copy=dtype == torch.float64)

    def rounded_at_any_scale(self, t: Tensor, dtype: torch.dtype) -> Tensor:
        """A value that an implementation may round to `dtype` before or after a factor (a softmax's
        divisor)."""
        return t

    @contextlib.contextmanager
    def inside(self, dtype: torch.dtype):
        """The parts of a fused operator, whose values need not have the type of its operands."""
        before, self.fused = self.fused, dtype
        try:
            yield
        finally:
            self.fused = before

    # ---- one operator ----

    def dispatch(self, func, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        operator = Operator.of(func)
        dtype = self._dtype_argument(operator, args, kwargs)
        args, kwargs = tree_map(self._adapted, (args, kwargs))
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if operator.base_name in _RANDOM:
            return self._random(func, operator, args, kwargs, dtype)
        if operator.name == "_to_copy":
            return self._copy(func, args, kwargs, dtype)
        if operator.name == "view" and len(args) > 1 and isinstance(args[1], torch.dtype):
            return self._view_as(func, args[0], dtype)
        if operator.name == "_scaled_mm":
            return self._scaled_product(operator.bound(args, kwargs), dtype)
        if operator.name in ("_local_scalar_dense", "item"):
            return func(*args, **kwargs)
        if operator.base_name in _CONSTANTS:
            args, kwargs = self._rounded_constant(operator, args, kwargs, dtype)
        declared = self._declared_result(operator, args, kwargs, dtype)
        out = self.compute(func, operator, args, kwargs, declared)
        return self._declared(out, operator, args, kwargs, declared)

    def compute(self, func, operator: Operator, args, kwargs, declared: torch.dtype) -> Any:
        return func(*args, **kwargs)

    def _dtype_argument(self, operator: Operator, args, kwargs) -> Optional[torch.dtype]:
        for name in ("dtype", "out_dtype"):
            if isinstance(kwargs.get(name), torch.dtype):
                return kwargs[name]
        for name, x in zip(operator.arguments, args):
            # `input_dtype` of backward operators is what C++ saw, which is float64.
            if isinstance(x, torch.dtype) and name != "input_dtype":
                return x
        return None

    def _adapted(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self.widened(x)
        if isinstance(x, torch.dtype) and x in WIDENED:
            return torch.float64
        if isinstance(x, torch.device):
            return torch.device("cpu") if x.type == "cuda" else x
        return x

    def _declared_result(self, operator: Operator, args, kwargs, dtype) -> torch.dtype:
        if operator.in_place:
            return self.shadows.declared(args[0])
        if dtype is not None:
            return dtype
        if self.fused is not None:
            return self.fused
        return promoted(self.shadows, tensors_in(args, kwargs))

    def _declared(self, out: Any, operator: Operator, args, kwargs, declared: torch.dtype) -> Any:
        """Notes the declared type of fresh results; float results are float64."""
        if operator.is_view or operator.in_place:
            return out
        given = {t.untyped_storage()._cdata for t in tensors_in(args, kwargs)}

        def note(x):
            if not isinstance(x, Tensor) or not x.dtype.is_floating_point or x.dtype in FP8:
                return x
            if x.dtype in WIDENED:
                x = self._as_double(x)
            if x.dtype == torch.float64 and x.untyped_storage()._cdata not in given:
                self.shadows.declare(x, declared if declared.is_floating_point else torch.get_default_dtype())
            return x

        return tree_map(note, out)

    def _as_double(self, t: Tensor) -> Tensor:
        made = t.to(torch.float64)
        self.shadows.declare(made, t.dtype)
        return made

    def _random(self, func, operator: Operator, args, kwargs, dtype) -> Any:
        """Random numbers as the declared type draws them."""
        if operator.in_place:
            declared = self.shadows.declared(args[0])
            if declared not in WIDENED:
                return func(*args, **kwargs)
            drawn = torch.empty(args[0].shape, dtype=declared)
            func(drawn, *args[1:], **kwargs)
            args[0].copy_(drawn)
            self.changed(args[0])
            return args[0]
        if dtype is None and args and isinstance(args[0], Tensor):
            dtype = self.shadows.declared(args[0])
        if "dtype" in operator.arguments and dtype is not None:
            kwargs = {**kwargs, "dtype": dtype}
        out = func(*args, **kwargs)
        widen = lambda x: self._as_double(x) if isinstance(x, Tensor) and x.dtype in WIDENED else x
        return tree_map(widen, out)

    def changed(self, t: Tensor) -> None:
        """The values of `t` were replaced by exact ones."""

    def _copy(self, func, args, kwargs, dtype: Optional[torch.dtype]) -> Tensor:
        source = args[0]
        target = dtype or self.shadows.declared(source)
        return self.copy(source, target, kwargs.get("memory_format"))

    def copy(self, source: Tensor, target: torch.dtype, memory_format=None) -> Tensor:
        """A copy of declared type `target`."""
        if target in FP8:
            return narrowed(source, target) if source.dtype == torch.float64 else source.to(target)
        if not target.is_floating_point:
            return source.to(target) if not (target.is_complex and source.dtype == torch.float64) else \
                source.to(torch.complex128)
        wide = source.to(torch.float32) if source.dtype in FP8 else source
        layout = {} if memory_format in (None, torch.preserve_format) else {"memory_format": memory_format}
        made = wide.to(torch.float64, copy=True, **layout)
        if made.untyped_storage()._cdata == source.untyped_storage()._cdata:
            made = made.clone()
        self.shadows.declare(made, self.fused if self.fused is not None and dtype_wider(self.fused, target)
                             else target)
        return made

    def _view_as(self, func, source: Tensor, target: torch.dtype) -> Tensor:
        """Bits as another type: those of the declared type, which float64 does not share."""
        declared = self.shadows.declared(source)
        if source.dtype == torch.float64 and declared in WIDENED:
            source = narrowed(source, declared).contiguous()
        made = source.view(target)
        return self._as_double(made) if target in WIDENED else made

    def _scaled_product(self, a: Dict[str, Any], dtype: Optional[torch.dtype]) -> Tensor:
        """fp8 products: _scaled_mm, in float64."""
        with self._dispatch:
            left = a["self"].to(torch.float32) * a["scale_a"]
            right = a["mat2"].to(torch.float32) * a["scale_b"]
            with self.inside(torch.float32):
                out = left @ right
                if a.get("bias") is not None:
                    out = out + a["bias"]
                if a.get("scale_result") is not None:
                    out = out * a["scale_result"]
            return out.to(dtype) if dtype is not None else out

    def _rounded_constant(self, operator: Operator, args, kwargs, dtype):
        """A constant has the value that its type holds."""
        target = dtype
        if target is None and args and isinstance(args[0], Tensor):
            target = self.shadows.declared(args[0])
        if target is None and operator.name in ("full", "scalar_tensor"):
            target = torch.get_default_dtype()
        if target not in WIDENED:
            return args, kwargs
        place = operator.arguments.index("fill_value" if "fill_value" in operator.arguments else
                                         "value" if "value" in operator.arguments else "s")
        if place < len(args) and isinstance(args[place], float):
            held = round_to(torch.tensor(args[place], dtype=torch.float64), target).item()
            args = (*args[:place], held, *args[place + 1:])
        if operator.name in ("full", "scalar_tensor") and isinstance(args[place], float):
            kwargs = {**kwargs, "dtype": torch.float64}
        return args, kwargs


def dtype_wider(a: torch.dtype, b: torch.dtype) -> bool:
    return torch.promote_types(a, b) == a and a != b


class _Dispatch(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would import its compiler for that, which takes seconds

    def __init__(self, evaluation: Evaluation):
        super().__init__()
        self.evaluation = evaluation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            return self.evaluation.dispatch(func, args, dict(kwargs or {}))


class _Functions(TorchFunctionMode):
    def __init__(self, evaluation: Evaluation):
        super().__init__()
        self.evaluation = evaluation
        self.handlers: Dict[Any, Callable] = {
            Tensor.dtype.__get__: lambda t: evaluation.shadows.declared(t),
            Tensor.to: self._to,
            Tensor.type: self._type,
            Tensor.type_as: lambda t, other: evaluation.converted(t, evaluation.shadows.declared(other)),
            Tensor.double: lambda t, **_: evaluation.converted(t, torch.float64),
            Tensor.float: lambda t, **_: evaluation.converted(t, torch.float32),
            Tensor.half: lambda t, **_: evaluation.converted(t, torch.float16),
            Tensor.bfloat16: lambda t, **_: evaluation.converted(t, torch.bfloat16),
            Tensor.cuda: lambda t, *_, **__: t,
            Tensor.pin_memory: lambda t, *_, **__: t,
            Tensor.is_pinned: lambda t, *_, **__: False,
            Tensor.record_stream: lambda t, *_: None,
            Tensor.itemsize.__get__: lambda t: evaluation.shadows.declared(t).itemsize,
            Tensor.element_size: lambda t: evaluation.shadows.declared(t).itemsize,
            torch.nn.functional.scaled_dot_product_attention: self._attention,
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        evaluation = self.evaluation
        if func is Tensor.grad.__get__ and args[0].dtype in WIDENED and _TWIN in args[0].__dict__:
            return args[0].__dict__[_TWIN].grad
        args, kwargs = tree_map(self._adapted, (tuple(args), dict(kwargs or {})))
        name = getattr(func, "__name__", "")
        if evaluation.autocast is not None and name in _AUTOCAST:
            args, kwargs = tree_map(self._autocast, (args, kwargs))
        handler = self.handlers.get(func) if _hashable(func) else None
        if handler is not None:
            return handler(*args, **kwargs)
        return func(*args, **kwargs)

    def _adapted(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self.evaluation.widened(x)
        return on_this_device(x)

    def _autocast(self, x: Any) -> Any:
        if isinstance(x, Tensor) and self.evaluation.shadows.declared(x) in WIDENED:
            return self.evaluation.converted(x, self.evaluation.autocast)
        return x

    def _to(self, t: Tensor, *args, **kwargs) -> Tensor:
        target, copy = kwargs.get("dtype"), bool(kwargs.get("copy"))
        for x in (*args, kwargs.get("other")):
            if isinstance(x, torch.dtype):
                target = x
            elif isinstance(x, Tensor):
                target = self.evaluation.shadows.declared(x)
        made = self.evaluation.converted(t, target, copy)
        layout = kwargs.get("memory_format")
        return made if layout in (None, torch.preserve_format) else made.contiguous(memory_format=layout)

    def _type(self, t: Tensor, dtype=None, *_, **__) -> Any:
        if dtype is None:
            return t.type()
        if isinstance(dtype, str):
            dtype = getattr(torch, dtype.rsplit(".", 1)[-1].replace("Tensor", "").lower())
        return self.evaluation.converted(t, dtype)

    def _attention(self, query: Tensor, key: Tensor, value: Tensor, attn_mask=None, dropout_p: float = 0.0,
                   is_causal: bool = False, scale: Optional[float] = None,
                   enable_gqa: bool = False) -> Tensor:
        """One fused operator."""
        evaluation = self.evaluation
        declared = evaluation.shadows.declared(query)
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key, value = (x.repeat_interleave(groups, -3) for x in (key, value))
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        mask = attn_mask
        if is_causal:
            keep = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
            mask = keep if mask is None else mask & keep
        arguments = (query, key, value, mask, factor, dropout_p, evaluation, declared)
        return _Attention.apply(*arguments)


class _Attention(torch.autograd.Function):
    """softmax(q k' scale + mask) v as fused kernels compute it, forward and backward. What they keep in the
    operands' type (probabilities, gradients of scores, the output that the row sums of the backward pass are
    made of) is declared to have it."""

    @staticmethod
    def forward(context, query, key, value, mask, factor, dropout_p, evaluation, declared):
        with evaluation.inside(torch.promote_types(torch.float32, declared)):
            scores = query @ key.transpose(-2, -1) * factor
            if mask is not None:
                lowest = float("-inf")
                scores = scores.masked_fill(~mask, lowest) if mask.dtype == torch.bool else scores + mask
            # A row that sees nothing is zero, as torch defines it.
            hidden = (scores == float("-inf")).all(-1, keepdim=True)
            chances = scores.softmax(-1).masked_fill(hidden, 0.0)
            dropped = torch.dropout(torch.ones_like(chances), dropout_p, True) if dropout_p > 0 else None
            given = chances if dropped is None else chances * dropped
            rounded = evaluation.rounded_at_any_scale(given, declared)
            out = rounded @ value
        out = evaluation.converted(out, declared)
        context.save_for_backward(query, key, value, chances, rounded, dropped, out)
        context.mask_shape = mask.shape if mask is not None and mask.dtype != torch.bool else None
        context.rest = (factor, evaluation, declared)
        return out

    @staticmethod
    def backward(context, gradient):
        query, key, value, chances, rounded, dropped, out = context.saved_tensors
        factor, evaluation, declared = context.rest
        with evaluation.inside(torch.promote_types(torch.float32, declared)):
            of_chances = gradient @ value.transpose(-2, -1)
            if dropped is not None:
                of_chances = of_chances * dropped
            of_scores = chances * (of_chances - (gradient * out).sum(-1, keepdim=True))
            narrow = evaluation.rounded_at_any_scale(of_scores, declared)
            of_value = rounded.transpose(-2, -1) @ gradient
            of_query = narrow @ key * factor
            of_key = narrow.transpose(-2, -1) @ query * factor
        of_mask = of_scores.sum_to_size(context.mask_shape) if context.mask_shape is not None else None
        results = [evaluation.converted(g, declared) for g in (of_query, of_key, of_value)]
        shapes = (query.shape, key.shape, value.shape)
        return (*[g.sum_to_size(s) for g, s in zip(results, shapes)], of_mask, None, None, None, None)


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


# ---- what a machine without a GPU lacks ----


class _Autocast(contextlib.ContextDecorator):
    """torch.autocast: notes the type for the evaluation, which decides what is cast."""

    evaluation: Optional[Evaluation] = None

    def __init__(self, device_type: Any = "cuda", dtype: Optional[torch.dtype] = None, enabled: bool = True,
                 cache_enabled: Optional[bool] = None):
        self.target = (dtype or torch.float16) if enabled else None

    def __enter__(self):
        self.before, self.evaluation.autocast = self.evaluation.autocast, self.target
        return self

    def __exit__(self, *_):
        self.evaluation.autocast = self.before


class _Idle:
    """A stream, an event or a device that has nothing to do."""

    name, major, minor = "no device", 9, 0
    multi_processor_count, total_memory = 132, 1 << 37

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def elapsed_time(self, _):
        return 0.0

    def query(self):
        return True

    def is_capturing(self):
        return False

    def _nothing(self, *_, **__):
        return None

    synchronize = wait = record = wait_stream = wait_event = _nothing


class _Cpu(TorchFunctionMode):
    """Devices become the CPU; types stay what they are."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(on_this_device, (tuple(args), dict(kwargs or {})))
        if func in (Tensor.cuda, Tensor.pin_memory):
            return args[0]
        return func(*args, **kwargs)


@contextlib.contextmanager
def on_cpu():
    """For the problem's code outside an evaluation: importing it, and making its inputs."""
    with _replaced(Evaluation(), backward=False), _Cpu():
        yield


def on_this_device(x: Any) -> Any:
    if isinstance(x, torch.device) and x.type == "cuda":
        return torch.device("cpu")
    if isinstance(x, str) and (x == "cuda" or x.startswith("cuda:")):
        return "cpu"
    return x


def _unchecked(function: Callable, *args, **options) -> Any:
    """torch.utils.checkpoint: there is memory enough, and its comparison of types would not understand
    ours."""
    known = ("use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state", "early_stop")
    return function(*args, **{k: v for k, v in options.items() if k not in known})


@contextlib.contextmanager
def _replaced(evaluation: Evaluation, backward: bool = True):
    """While the problem's code runs: torch.cuda answers without a device, autocast is noted, and backward
    passes keep the function mode."""
    run_backward = torch.autograd._engine_run_backward

    def keep_mode(*args, **kwargs):
        with evaluation._functions:
            return run_backward(*args, **kwargs)

    autocast = type("autocast", (_Autocast,), {"evaluation": evaluation})
    cuda_autocast = lambda enabled=True, dtype=None, cache_enabled=None: autocast("cuda", dtype, enabled)
    # One function for each name: torch's compiler, should the problem load it, wants them distinct.
    nothing = lambda: (lambda *_, **__: None)
    idle = lambda: (lambda *_, **__: _Idle())
    changes = [
        (torch.autograd, "_engine_run_backward", keep_mode if backward else run_backward),
        (torch, "autocast", autocast),
        (torch.amp, "autocast", autocast), (torch.cuda.amp, "autocast", cuda_autocast),
        (torch.nn.Module, "cuda", lambda module, device=None: module),
        (torch.cuda, "is_available", lambda: True), (torch.cuda, "device_count", lambda: 1),
        (torch.cuda, "current_device", lambda: 0), (torch.cuda, "synchronize", nothing()),
        (torch.cuda, "empty_cache", nothing()), (torch.cuda, "set_device", nothing()),
        (torch.cuda, "manual_seed", nothing()), (torch.cuda, "manual_seed_all", nothing()),
        (torch.cuda, "current_stream", idle()), (torch.cuda, "default_stream", idle()),
        (torch.cuda, "Stream", type("Stream", (_Idle,), {})),
        (torch.cuda, "Event", type("Event", (_Idle,), {})), (torch.cuda, "stream", idle()),
        (torch.cuda, "device", idle()),
        (torch.cuda, "get_device_properties", idle()),
        (torch.cuda, "get_device_name", lambda *_: "no device"),
        (torch.cuda, "get_device_capability", lambda *_: (9, 0)),
        (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
        (torch.cuda, "is_current_stream_capturing", lambda *_: False),
        (getattr(torch, "accelerator", None), "current_stream", idle()),
        (torch.utils.checkpoint, "checkpoint", _unchecked),
        (torch, "compile", lambda model=None, **_: model if model is not None else (lambda f: f)),
        (torch.jit, "script", lambda f, *_, **__: f),
    ]
    changes = [change for change in changes if hasattr(change[0], change[1])]  # older versions lack some
    before = [(place, name, getattr(place, name)) for place, name, _ in changes]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    for place, name, made in changes:
        setattr(place, name, made)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for place, name, made in before:
            setattr(place, name, made)
