"""Budgets by perturbation, for operators without a rule, and for whole references as the last resort.

The operator is run again with every input moved within its bound, and once in the declared precision. What
the results move by, with a margin, is the bound. This is an estimate: it rests on a few samples, and the
answer of the server says so.
"""
from typing import Any, List, Sequence

import torch

from .arithmetic import Value
from .precision import FP8
from .tree import tensors_in, tree_map

Tensor = torch.Tensor

RUNS = 6
# A few runs are not the worst case, and another order of summation is not among them.
MARGIN = 8.0
_SEED = 20250
_ROUNDINGS = 4.0  # of the result, in any case
_WHOLE = 4.0  # more for a whole reference: roundings inside are seen only through those of the inputs


def perturbed(run, func, args, kwargs) -> Any:
    generator = torch.Generator().manual_seed(_SEED)

    def plain(x):
        return run.read(x).v if isinstance(x, Tensor) and x.dtype in FP8 else x

    def moved(x):
        if isinstance(x, Tensor) and x.is_complex():
            b, _ = run.shadows.budget(x)
            if b is None:
                return x
            shaken = torch.view_as_real(x.resolve_conj()) + b * signs(b)
            return torch.view_as_complex(shaken.contiguous())
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        value = run.read(x)
        if value.exact:
            return value.v
        b = torch.where(torch.isfinite(value.b), value.b, value.v.abs())
        return value.v + b * signs(b)

    def signs(like):
        return 2 * torch.rand(like.shape, generator=generator, dtype=torch.float64) - 1

    def narrow(x):
        if isinstance(x, Tensor) and x.is_complex():
            return x.to(torch.complex64)
        return x.to(run.precision.dtype) if isinstance(x, Tensor) and x.is_floating_point() else x

    exact = func(*tree_map(plain, args), **tree_map(plain, kwargs))
    if _undecided_integers(run, (args, kwargs)):
        return tree_map(lambda x: _unknown(x) if isinstance(x, Tensor) else x, exact)
    results: List[Any] = []
    if any(run.shadows.budget(t)[0] is not None or not run.read(t).exact for t in _floats((args, kwargs))):
        results = [func(*tree_map(moved, args), **tree_map(moved, kwargs)) for _ in range(RUNS)]
    try:
        results.append(func(*tree_map(narrow, tree_map(plain, args)), **tree_map(plain, kwargs)))
    except (RuntimeError, NotImplementedError):
        pass  # the operator has no form in that precision on the CPU
    return _combined(run, exact, results)


def _undecided_integers(run, tree) -> bool:
    integers = [t for t in tensors_in(tree) if not t.is_floating_point() and not t.is_complex()]
    return any(run.shadows.budget(t)[0] is not None for t in integers)


def _unknown(t: Tensor) -> Value:
    b = torch.full(t.shape, float("inf"), dtype=torch.float64)
    return Value(t, b, b)


def _floats(tree) -> List[Tensor]:
    return [t for t in tensors_in(tree) if t.is_floating_point() or t.is_complex()]


def _combined(run, exact: Any, results: Sequence[Any]) -> Any:
    if isinstance(exact, Tensor) and exact.is_complex():
        real = lambda t: torch.view_as_real(t.resolve_conj())
        value = spread(real(exact), [real(r) for r in results], run.math.u)
        run.shadows.set_budget(exact, *value[1:])
        return exact
    if isinstance(exact, Tensor):
        return spread(exact, results, run.math.u)
    if isinstance(exact, (list, tuple)):
        return tuple(_combined(run, x, [r[i] for r in results]) for i, x in enumerate(exact))
    return exact


def spread(exact: Tensor, results: Sequence[Tensor], u: float) -> Any:
    """The bound and variance that these runs suggest; the tensor itself where nothing was seen to move."""
    if not results or any(r.shape != exact.shape for r in results):
        return Value(exact) if exact.is_floating_point() else exact
    v = exact.double()
    most, squares = torch.zeros_like(v), torch.zeros_like(v)
    for r in results:
        apart = (r.double() - v).abs()
        apart = torch.where(torch.isnan(apart), torch.where(torch.isfinite(v), float("inf"), 0.0), apart)
        most, squares = torch.maximum(most, apart), squares + apart ** 2
    if not exact.is_floating_point():
        return Value(exact, most, most ** 2) if bool((most > 0).any()) else exact
    # Elements of much the same size are rounded much alike: none has less than a share of the typical loss.
    typical = most[torch.isfinite(most)].mean() if bool(torch.isfinite(most).any()) else torch.zeros(())
    scale = v.abs() + v.abs()[torch.isfinite(v)].mean() if v.numel() else v.abs()
    floor = typical * v.abs() / scale.clamp(min=1e-300) if v.numel() else most
    b = MARGIN * torch.maximum(most, floor) + _ROUNDINGS * u * v.abs()
    s = squares / len(results) + (u * v) ** 2
    return Value(v, b, torch.maximum(s, (b / MARGIN) ** 2 / 4))


def whole_reference(outputs_of, inputs, dtypes, precision) -> dict:
    """Value, bound and standard deviation of every output, from runs of the whole reference.

    The reference runs exactly, then as often with every float input moved by about its rounding; how far the
    results move, with a margin, is the bound."""
    from .exact import Evaluation

    generator = torch.Generator().manual_seed(_SEED)
    exact = outputs_of(Evaluation(), inputs)
    moved: List[Any] = []
    for _ in range(RUNS):
        shaken = {}
        for name, t in inputs.items():
            moves = t.is_floating_point() and dtypes[name] not in FP8
            signs = 2 * torch.rand(t.shape, generator=generator, dtype=torch.float64) - 1
            shaken[name] = t * (1 + 2 * precision.u * signs) if moves else t
        moved.append(outputs_of(Evaluation(), shaken))
    results = {}
    for name, v in exact.items():
        value = spread(v, [m[name] for m in moved], precision.u)
        value = value if isinstance(value, Value) else Value(v)
        b = value.bound() * _WHOLE if v.is_floating_point() else value.bound()
        results[name] = (value.v, b, value.variance().sqrt() * _WHOLE ** 0.5)
    return results
