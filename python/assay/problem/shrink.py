"""Smaller sizes for a problem that promises one shape.

KernelBench's shapes have a billion elements in the median; the virtual GPU executes every thread. A problem of one shape
is checked at that shape where it can be afforded, and at smaller ones that keep what a correct answer may rely on: each
size stays a multiple of every divisor that the answer's text suggests (tiles, blocks, vector widths), sizes that occur as
literals in the answer stay as they are, and a forward pass must still work.

`work` of a shape is the elements of all tensors plus multiply-adds; None where the shape does not work.
"""
from __future__ import annotations

from math import lcm, prod
from typing import Callable, Dict, List, Optional, Sequence

Sizes = Dict[str, int]

# Work that one trial may cost at the benchmark's own shape, and at a shrunken one. A multiply-add takes a few tenths of a
# microsecond on the virtual GPU with all checks on, and a check runs some dozens of trials.
OWN_SHAPE_WORK = 4_000_000
SHRUNKEN_WORK = 1_000_000
LEAST_WORK = 60_000  # of a second, still smaller shape, where many trials are cheap
SMALLEST_SHRUNKEN = 8  # sizes up to this are kernel sizes, strides, groups


def smaller(sizes: Sizes, work: Callable[[Sizes], Optional[int]], divisors: Sequence[int],
            pinned: Sequence[str] = (), extents: Optional[Callable[[Sizes], List[List[int]]]] = None,
            limit: int = SHRUNKEN_WORK) -> Optional[Sizes]:
    """Sizes whose work is at most `limit`, or as near as halving comes; None where nothing can be made smaller.

    `extents(sizes)` are the shapes of the tensors; a divisor of all elements of a tensor is kept, too.
    """
    kept_products = [[d for d in divisors if prod(shape) % d == 0] for shape in extents(sizes)] if extents else []

    def fits(candidate: Sizes) -> Optional[int]:
        cost = work(candidate)
        if cost is None or not extents:
            return cost
        kept = all(prod(shape) % d == 0 for shape, ds in zip(extents(candidate), kept_products) for d in ds)
        return cost if kept else None

    current, cost = dict(sizes), work(sizes)
    while cost is None or cost > limit:
        for names in _groups(current, pinned):
            candidate = dict(current)
            for name in names:
                candidate[name] = halved(current[name], divisors)
            if candidate == current:
                continue
            candidate_cost = fits(candidate)
            if candidate_cost is not None and (cost is None or candidate_cost < cost):
                current, cost = candidate, candidate_cost
                break
        else:
            break
    return current if current != sizes else None


def _groups(sizes: Sizes, pinned: Sequence[str]) -> List[List[str]]:
    """What to try to halve: the largest size first, then all sizes equal to it together."""
    free = sorted((name for name in sizes if name not in pinned and sizes[name] > SMALLEST_SHRUNKEN),
                  key=lambda name: -sizes[name])
    together = [[other for other in free if sizes[other] == sizes[name]] for name in free]
    return [[name] for name in free] + [group for group in together if len(group) > 1]


def halved(size: int, divisors: Sequence[int]) -> int:
    """About half of `size`, a multiple of every divisor of `size`; `size` where there is no smaller one."""
    kept = [divisor for divisor in divisors if size % divisor == 0]
    step = lcm(*kept) if kept else 1
    half = size // 2 // step * step
    if size % 2 == 1 and half % 2 == 0:
        half -= step  # an odd size stays odd
    return half if half > 0 else size
