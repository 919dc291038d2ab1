"""The exact evaluation of a reference with a rounding budget beside every value.

    run = BudgetEvaluation(Precision())
    with run:
        y = reference(run.input(x, torch.bfloat16))
    value, bound, sigma = run.result(y, torch.bfloat16)

A tensor's budget is kept before the rounding to its own declared type. That rounding is applied when an
operator reads the tensor, so that the last one, which is the store of an output, is left to the judge, and
elements that only move (cat, transpose, index) are not rounded twice.
"""
import functools
import inspect
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
import torch._refs.nn.functional
import torch._refs.special
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import _disable_current_modes

from . import rules_nn, rules_sums  # noqa: F401  (they register their rules)
from .arithmetic import Arithmetic, Value
from .exact import Evaluation, Operator
from .functions import DOCUMENTED
from .perturbation import perturbed
from .precision import FP8, INF, RMS, Precision, is_narrow, round_to, unit_roundoff
from .rules import FILLS, INTEGER_ARITHMETIC, LOOKUPS, MOVES, RULES, complex_rule
from .tree import tensors_in, tree_map

Tensor = torch.Tensor

# What an equivalent rewriting may cost: two rounded operations for one of the reference's (docs/numerics.md).
REWRITING = 2.0
# Random choices: another generator makes others. (Numbers drawn otherwise are taken for constants of the
# problem: weights, noise after a seed.)
_DROPOUT = {"bernoulli", "native_dropout", "_fused_dropout", "rrelu_with_noise"}
# What the operators of decompositions (torch's prims) call the arguments of reductions.
PRIMS_NAMES = {"inp": "self", "dims": "dim"}
# How far two evaluations in float64 may be apart, beside the bound.
_SLACK = 1e-9


@functools.lru_cache(maxsize=None)
def _without_compiler() -> None:
    """torch's decompositions import its compiler on their first call, for a mark that is of no use here and
    takes seconds: set the mark first."""
    places = [torch._refs, torch._refs.nn.functional, torch._refs.special, torch._decomp.decompositions]
    found = [f for place in places for f in vars(place).values() if callable(f)]
    for function in found + list(decomposition_table.values()):
        while function is not None:
            if inspect.isfunction(function) and not hasattr(function, "__dynamo_disable"):
                setattr(function, "__dynamo_disable", function)
            function = getattr(function, "__wrapped__", None)


def _close(made: Any, own: Tensor) -> bool:
    v = made.v if isinstance(made, Value) else made
    if v.shape != own.shape:
        return False
    if not own.is_floating_point():
        return not v.is_floating_point() and torch.equal(v.to(own.dtype), own)
    slack = _SLACK * own.abs() + (made.bound() if isinstance(made, Value) else 0.0)
    return bool((((v - own).abs() <= slack) | (v == own) | ~(torch.isfinite(v) | torch.isfinite(own))).all())


def _with_own_nonfinite(made: Any, own: Any) -> Any:
    """A rule's value with the operator's own NaN and infinities: which of them it is depends on the algorithm."""
    if not isinstance(made, Value) or not isinstance(own, Tensor) or not own.is_floating_point():
        return made
    neither = ~(torch.isfinite(made.v) | torch.isfinite(own))
    return Value(torch.where(neither, own.to(made.v.dtype), made.v), made.b, made.s) if bool(neither.any()) else made


class BudgetEvaluation(Evaluation):
    def __init__(self, precision: Precision):
        super().__init__()
        self.math = Arithmetic(precision)
        self.precision = precision
        self.operator = ""
        self.perturbed: Set[str] = set()
        self.branched = False  # control flow on a value that rounding may change
        self.declared_now: Optional[torch.dtype] = None  # of the current operator's result
        self.random = False  # results depend on random numbers that no kernel can draw
        self.documented = False  # inside an operator that PyTorch documents with a formula that cancels
        self._func: Any = None

    # ---- reading and writing ----

    def raw(self, t: Tensor) -> Value:
        """A tensor's value and budget, before the rounding to its declared type."""
        b, s = self.shadows.budget(t)
        return Value(t.to(torch.float32).double() if t.dtype in FP8 else t, b, s)

    def read(self, x: Any) -> Value:
        """An operand, as an operator may find it: rounded to its declared type, or not."""
        if not isinstance(x, Tensor):
            return self.math.number(x, torch.empty(0)) if isinstance(x, float) else \
                Value(torch.tensor(x, dtype=torch.float64))
        value = self.raw(x)
        if x.dtype == torch.float64:
            declared = self.shadows.declared(x)
            if is_narrow(declared, self.precision):
                value = self.math.cast(value, declared)
            if self.precision.fast:
                value = self.math.flushed(value)
        return value

    def moved(self, x: Any) -> Value:
        """An operand whose elements only move, so that the result's own rounding is that of the operand."""
        if not isinstance(x, Tensor):
            return self.constant(x)
        if x.dtype == torch.float64 and self.shadows.declared(x) == self.declared_now:
            return self.raw(x)
        return self.read(x)

    def constant(self, x: Any) -> Value:
        if isinstance(x, Tensor):
            return self.read(x)
        return Value(torch.tensor(float(x), dtype=torch.float64))

    def write(self, t: Tensor, value: Value) -> None:
        shared = value.v.untyped_storage()._cdata == t.untyped_storage()._cdata
        value = value.map(torch.clone) if shared else value
        t.copy_(value.v)
        self.shadows.set_budget(t, value.b, value.s)

    def again(self, arguments: Dict[str, Any]) -> Any:
        """The operator itself, on other arguments."""
        schema = self._func._schema
        given, named = [], {}
        for argument in schema.arguments:
            if argument.name not in arguments or argument.name == "out":
                continue
            if argument.kwarg_only:
                named[argument.name] = arguments[argument.name]
            else:
                given.append(arguments[argument.name])
        return self._functional(self._func)(*given, **named)

    def changed(self, t: Tensor) -> None:
        self.shadows.set_budget(t, None, None)

    def _random(self, func, operator: Operator, args, kwargs, dtype):
        out = super()._random(func, operator, args, kwargs, dtype)
        if operator.base_name in _DROPOUT:
            self.random = True
            for t in tensors_in(out):
                b = torch.full(t.shape, INF, dtype=torch.float64)
                self.shadows.set_budget(t, b, b)
        return out

    # ---- one operator ----

    def dispatch(self, func, args, kwargs):
        operator = Operator.of(func)
        if operator.name == "_local_scalar_dense":
            b, _ = self.shadows.budget(args[0])
            self.branched |= b is not None and args[0].dtype != torch.float64 and bool((b > 0).any())
        return super().dispatch(func, args, kwargs)

    def compute(self, func, operator: Operator, args, kwargs, declared):
        if operator.is_view:
            return func(*args, **kwargs)
        tensors = tensors_in(args, kwargs)
        if not any(t.is_floating_point() or self.shadows.budget(t)[0] is not None for t in tensors):
            out = func(*args, **kwargs)
            if not operator.written and not any(t.is_floating_point() for t in tensors_in(out)):
                return out
            if not tensors or operator.written:
                for t in tensors_in(out):
                    self._narrow(t, operator)
                return out
        state = (self.operator, self._func, self.declared_now, self.math.longest)
        self.operator, self._func = operator.base_name, func
        self.declared_now, self.math.longest = declared, 1.0
        terms = max([self.shadows.terms(t) for t in tensors], default=1.0)
        try:
            result = self._apply(func, operator, args, kwargs)
            stored = self._stored(result, func, operator, args, kwargs)
            for t in tensors_in(stored):
                self.shadows.note_terms(t, max(terms, self.math.longest))
            return stored
        finally:
            self.operator, self._func, self.declared_now, self.math.longest = state

    def _narrow(self, t: Tensor, operator: Operator) -> None:
        """Factories: numbers that the precision may not hold (linspace, arange with a fractional step)."""
        if t.is_floating_point() and operator.base_name in ("linspace", "logspace", "arange"):
            value = self.math.narrow(t.double())
            self.shadows.set_budget(t, value.b, value.s)

    def _apply(self, func, operator: Operator, args, kwargs) -> Any:
        name = operator.base_name
        named = operator.bound(args, kwargs)
        if name == "copy":
            return self._assigned(named["self"], named["src"])
        if name in ("polar", "complex") or any(t.is_complex() for t in tensors_in(args, kwargs)):
            return self._apply_complex(func, operator, args, kwargs, named)
        if name in INTEGER_ARITHMETIC and not any(t.is_floating_point() for t in tensors_in(args, kwargs)):
            return self._of_integers(func, args, kwargs)
        found = RULES.get(name)
        if found is not None:
            if func.namespace == "prims":  # a decomposition's own operators
                named = {PRIMS_NAMES.get(key, key): x for key, x in named.items()}
            result = found(self, named)
            agreed = None if result is NotImplemented else self._agreed(result, func, args, kwargs)
            if agreed is not None:
                return agreed
        if name in MOVES:
            return self._move(func, operator, args, kwargs)
        if name in LOOKUPS:
            return self._look_up(func, operator, args, kwargs, named)
        functional = self._functional(func)
        decomposition = decomposition_table.get(functional)
        if decomposition is not None:
            return self._decomposed(decomposition, args, kwargs)
        if torch._C._dispatch_has_kernel_for_dispatch_key(functional.name(), "CompositeImplicitAutograd"):
            return self._decomposed(functional.decompose, args, kwargs)
        return self._perturb(functional, operator, args, kwargs)

    def _agreed(self, result: Any, func, args, kwargs) -> Optional[Any]:
        """What a rule made if it has the operator's own values; None, so that the operator is treated as one without
        a rule, if not."""
        functional = self._functional(func)
        if Operator.of(functional).written or "batch_norm" in self.operator:  # it would update its statistics
            return result
        wanted = functional(*args, **{k: x for k, x in kwargs.items() if k != "out"})
        several = type(result) is tuple
        pairs = list(zip(result, wanted)) if several else [(result, wanted)]
        if not all(_close(made, own) for made, own in pairs if isinstance(own, Tensor)):
            return None
        agreed = [_with_own_nonfinite(made, own) for made, own in pairs]
        return tuple(agreed) if several else agreed[0]

    def _of_integers(self, func, args, kwargs) -> Value:
        """Arithmetic on integers, some of them undecided: nothing is known about what they make."""
        v = self._functional(func)(*args, **{k: x for k, x in kwargs.items() if k != "out"})
        lost = torch.zeros((), dtype=torch.bool)
        for t in tensors_in(args, kwargs):
            b, _ = self.shadows.budget(t)
            if b is not None:
                lost = lost | (b > 0)
        b = torch.where(lost, INF, 0.0).expand(v.shape)
        return Value(v, b, b)

    def parts(self, x: Any) -> Tuple[Value, Value]:
        """Real and imaginary part of an operand."""
        if not isinstance(x, Tensor) or not x.is_complex():
            if isinstance(x, complex):
                return self.constant(x.real), self.constant(x.imag)
            return self.read(x), Value(torch.zeros((), dtype=torch.float64))
        both = Value(torch.view_as_real(x.resolve_conj()), *self.shadows.budget(x))
        return both.map(lambda t: t[..., 0]), both.map(lambda t: t[..., 1])

    def _apply_complex(self, func, operator: Operator, args, kwargs, named) -> Any:
        result = complex_rule(self, operator.base_name, named)
        if result is not NotImplemented:
            real, imaginary = result
            shape = torch.broadcast_shapes(real.v.shape, imaginary.v.shape)
            stack = lambda p, q: torch.stack([p.expand(shape), q.expand(shape)], -1)
            made = torch.view_as_complex(stack(real.v, imaginary.v))
            return self._complex(made, stack(real.bound(), imaginary.bound()),
                                 stack(real.variance(), imaginary.variance()))
        if operator.base_name in MOVES - FILLS:
            moved = func(*args, **kwargs)
            if all(self.shadows.budget(t)[0] is None for t in tensors_in(args)):
                return moved
        return self._perturb(self._functional(func), operator, args, kwargs)

    def _complex(self, made: Tensor, b: Tensor, s: Tensor) -> Tensor:
        self.shadows.set_budget(made, b, s)
        return made

    def _decomposed(self, parts, args, kwargs) -> Any:
        _without_compiler()
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        before, self.documented = self.documented, self.documented or self.operator in DOCUMENTED
        try:
            with self._dispatch, self.inside(self.precision.dtype):
                return parts(*args, **kwargs)
        finally:
            self.documented = before

    def _functional(self, func):
        """The form of an operator that writes nothing."""
        operator = Operator.of(func)
        if not operator.written:
            return func
        wanted = [a.name for a in func._schema.arguments if a.name != "out"]
        packet = getattr(torch.ops.aten, operator.base_name, None)
        if packet is None:
            return func
        for overload in packet.overloads():
            candidate = getattr(packet, overload)
            if not Operator.of(candidate).written and Operator.of(candidate).arguments == wanted and \
                    [str(a.type) for a in candidate._schema.arguments] == \
                    [str(a.type) for a in func._schema.arguments if a.name != "out"]:
                return candidate
        return func

    def _assigned(self, target: Tensor, source: Tensor) -> Value:
        """copy_: a cast to the target's type, and a broadcast."""
        value = self.cast_to(source, self.shadows.declared(target))
        return value.map(lambda t: t.expand(target.shape))

    def _move(self, func, operator: Operator, args, kwargs) -> Any:
        if operator.base_name in FILLS:
            return func(*args, **kwargs) if not operator.written else \
                Value(self._functional(func)(*args, **kwargs))
        functional = self._functional(func)

        def pick(part: str):
            def one(x):
                if not isinstance(x, Tensor):
                    return x
                if not x.is_floating_point() and self.shadows.budget(x)[0] is None:
                    return x
                value = self.moved(x) if x.is_floating_point() else self.raw(x)
                if part == "v":
                    return x if x.dtype in FP8 else value.v
                return value.bound() if part == "b" else value.variance()

            return one

        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        values = functional(*tree_map(pick("v"), args), **kwargs)
        if all(self.moved(t).exact for t in tensors_in(args)):
            return values
        empty = [0.0 if n in ("value", "fill_value") else x for n, x in zip(operator.arguments, args)]
        parts = [functional(*tree_map(pick(p), tuple(empty)), **{k: (0.0 if k == "value" else v)
                                                                 for k, v in kwargs.items()}) for p in "bs"]
        if isinstance(values, Tensor):
            return Value(values, *parts)
        return type(values)(Value(v, b, s) for v, b, s in zip(values, *parts))

    def _look_up(self, func, operator: Operator, args, kwargs, named) -> Any:
        source_name = "weight" if operator.name == "embedding" else "self"
        place = operator.arguments.index(source_name)
        source = self.moved(named[source_name])
        look = lambda t: func(*args[:place], t, *args[place + 1:], **kwargs)
        v = look(named[source_name] if named[source_name].dtype in FP8 else source.v)
        value = Value(v) if source.exact else Value(v, look(source.b), look(source.s))
        lost = self._undecided_lookup(operator, named, v)
        if lost is None:
            return value
        return Value(v, torch.where(lost, INF, value.bound()), torch.where(lost, INF, value.variance()))

    def _undecided_lookup(self, operator: Operator, named, v: Tensor) -> Optional[Tensor]:
        """Which results come from an index that rounding may change."""
        if "indices" in named and isinstance(named["indices"], (list, tuple)):
            indices: List[Tensor] = [i for i in named["indices"] if i is not None]
            bounds = [self.shadows.budget(i)[0] for i in indices]
            if all(b is None or not bool((b > 0).any()) for b in bounds):
                return None
            if named["indices"][0] is None or len(indices) != len(named["indices"]):
                return torch.ones(v.shape, dtype=torch.bool)
            if len(indices) == 1 and indices[0].dtype == torch.bool:
                listed = (bounds[0] > 0)[indices[0]]
            else:
                opened = [torch.zeros(i.shape, dtype=torch.bool) if b is None else b > 0
                          for i, b in zip(indices, bounds)]
                listed = opened[0]
                for one in opened[1:]:
                    listed = listed | one
            return listed.reshape(*listed.shape, *[1] * (v.ndim - listed.ndim)).expand(v.shape)
        index = named.get("index", named.get("indices", named.get("mask")))
        b, _ = self.shadows.budget(index)
        if b is None or not bool((b > 0).any()):
            return None
        if operator.name == "masked_select":
            return (b > 0).expand(named["self"].shape)[index.expand(named["self"].shape)]
        if operator.name == "embedding":
            return (b > 0).unsqueeze(-1).expand(v.shape)
        if operator.name == "index_select":
            shape = [1] * v.ndim
            shape[named["dim"]] = -1
            return (b > 0).reshape(shape).expand(v.shape)
        return (b > 0).expand(v.shape)

    def _perturb(self, func, operator: Operator, args, kwargs) -> Any:
        """No rule and no decomposition: the operator's inputs are moved within their bounds."""
        self.perturbed.add(operator.base_name)
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        return perturbed(self, func, args, kwargs)

    def _stored(self, result: Any, func, operator: Operator, args, kwargs) -> Any:
        """Results as tensors with their budgets beside them; in-place forms write to their operand."""
        given = {t.untyped_storage()._cdata for t in tensors_in(args, kwargs)}
        if operator.written and (operator.in_place or "out" in kwargs):
            target = args[0] if operator.in_place else kwargs["out"]
            value = self._as_value(result)
            self.write(target, value)
            return target

        def fresh(x):
            if isinstance(x, Value):
                made = x.v
                if made.untyped_storage()._cdata in given or not made.is_contiguous() and made._is_view():
                    made = made.clone(memory_format=torch.contiguous_format)
                elif 0 in made.stride() and made.numel() > 1:
                    made = made.clone(memory_format=torch.contiguous_format)
                self.shadows.set_budget(made, x.b, x.s)
                return made
            return x

        return tree_map(fresh, result)

    def _as_value(self, result: Any) -> Value:
        if isinstance(result, Value):
            return result
        return self.raw(result)

    # ---- casts ----

    def cast_to(self, source: Tensor, target: torch.dtype) -> Value:
        """What a cast makes of a tensor, before the rounding to `target` where that is only declared."""
        declared = self.shadows.declared(source)
        if target == torch.bool:
            value = self.raw(source)
            v = value.v != 0
            if value.exact:
                return Value(v)
            open_ = ((value.v.abs() <= value.b) & (value.b > 0)).double()
            return Value(v, open_, open_)
        if target in FP8:
            return self._to_fp8(source, target)
        if not target.is_floating_point:
            value = self.read(source)
            v = value.v.to(target)
            if value.exact or not source.is_floating_point():
                return Value(v, value.b, value.s)
            low, high = (value.v - value.b).trunc(), (value.v + value.b).trunc()
            b = torch.maximum(high - v, v - low)
            b = torch.where(torch.isnan(b), INF, b)
            return Value(v, b, b ** 2)
        if declared == target:
            return self.raw(source)
        value = self.read(source)
        if not source.is_floating_point():
            wide = value.v.double()
            return self.math.narrow(wide) if value.exact else self.math.rounded(wide, value.b, value.b ** 2)
        return Value(value.v, value.b, value.s)

    def _to_fp8(self, source: Tensor, target: torch.dtype) -> Value:
        value = self.read(source)
        v = round_to(value.v.double(), target)
        if value.exact:
            return Value(v)
        b = torch.maximum(round_to(value.v + value.b, target) - v, v - round_to(value.v - value.b, target))
        b = torch.where(torch.isnan(b), torch.where(torch.isfinite(v), INF, 0.0), b)
        return Value(v, b, b ** 2)

    def copy(self, source: Tensor, target: torch.dtype, memory_format=None) -> Tensor:
        value = self.cast_to(source, target)
        made = super().copy(source, target, memory_format)
        self.shadows.set_budget(made, value.b, value.s)
        self.shadows.note_terms(made, self.shadows.terms(source))
        return made

    def rounded_at_any_scale(self, t: Tensor, dtype: torch.dtype) -> Tensor:
        if not is_narrow(dtype, self.precision):
            return t
        with _disable_current_modes():
            value = self.read(t)
            size = unit_roundoff(dtype) * (value.v.abs() + value.bound())
            tiny = torch.finfo(dtype).tiny * torch.finfo(dtype).eps * (size > 0)
            made = t.detach().clone()
            self.shadows.declare(made, self.precision.dtype)
            self.shadows.note_terms(made, self.shadows.terms(t))
            self.shadows.set_budget(made, value.bound() + size + tiny,
                                    value.variance() + (RMS * size) ** 2 + tiny ** 2)
        return made

    def _view_as(self, func, source: Tensor, target: torch.dtype) -> Tensor:
        made = super()._view_as(func, source, target)
        value = self.read(source)
        if not value.exact and made.shape == source.shape:
            if made.untyped_storage()._cdata == source.untyped_storage()._cdata:
                made = made.clone()
            b = torch.where(value.b > 0, INF, 0.0)
            self.shadows.set_budget(made, b, b)
        return made

    # ---- results ----

    def result(self, t: Tensor, stored: torch.dtype) -> Tuple[Tensor, Tensor, Tensor]:
        """Exact value, hard bound and standard deviation of an output, all before its store."""
        t = self.widened(t).detach()
        declared = self.shadows.declared(t)
        value = self.raw(t)
        if declared != stored and is_narrow(declared, self.precision):
            value = self.math.cast(value, declared)
        v = value.v.double() if value.v.is_floating_point() else value.v
        b, s = value.bound(), value.variance()
        if value.v.is_floating_point():
            # A sum may begin with what is added to it, an online softmax rescales at every step: one rounding
            # of the result for each term (docs/numerics.md, the hard bound).
            terms = self.shadows.terms(t)
            more = terms * self.precision.u * v.abs() if terms > 1 else 0.0
            b = torch.where((b > 0) & torch.isfinite(v), REWRITING * b + more, b)
        sigma = torch.minimum(torch.where(torch.isfinite(s), s, INF).sqrt(), value.bound())
        return v.contiguous(), b.contiguous(), sigma.contiguous()

    def rests_on(self) -> str:
        kind = "fast" if self.precision.fast else "standard"
        text = f"bounds propagated through every operator of the reference, {kind} math"
        if self.precision.tensor_cores:
            text += ", tensor cores allowed for"
        if self.precision.tf32:
            text += ", TF32 allowed for"
        if self.perturbed:
            text += "; by moving the inputs of " + ", ".join(sorted(self.perturbed))
        if self.random:
            text += "; what depends on dropout is not judged"
        if self.branched:
            text += "; the reference branches on a value that rounding may change"
        return text
