"""Smaller sizes for a problem that promises one shape.

KernelBench's shapes have a billion elements in the median; the virtual GPU executes every thread. A problem
of one shape is checked at that shape where it can be afforded, and at smaller ones that keep what a correct
answer may rely on: sizes and products of neighbouring extents stay multiples of the divisors that the
answer's text suggests (tiles, blocks, vector widths), sizes that occur as literals in the answer stay as they
are, and a forward pass must still work. Where that does not lead to an affordable shape, fewer divisors are
kept, in the order of RULES, and the contract says so.

`work` of a shape is the elements of all tensors plus multiply-adds; None where the shape does not work.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from math import lcm, prod
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from assay.problem.source_constants import SizesOfAnswer

Sizes = Dict[str, int]
Work = Callable[[Sizes], Optional[int]]
Extents = Callable[[Sizes], List[List[int]]]

# Work that one trial may cost at the benchmark's own shape, and what shrinking aims at. A multiply-add takes
# a few tenths of a microsecond on the virtual GPU with all checks on, and a check runs some dozens of trials.
OWN_SHAPE_WORK = 4_000_000
SHRUNKEN_WORK = 1_000_000
LEAST_WORK = 60_000  # of a second, still smaller shape, where many trials are cheap
SMALLEST_SHRUNKEN = 8  # sizes up to this in the benchmark are kernel sizes, strides, groups, and stay
SMALLEST_SIZE = 4  # no size is made smaller than this
BATCH = re.compile(r"batch|^b$|^bs$", re.IGNORECASE)
GROUPS = re.compile(r"group|heads?$", re.IGNORECASE)
GROUPED = re.compile(r"feature|channel|hidden|embed|model|output_size", re.IGNORECASE)  # what groups divide
SMALLEST_GROUP = 8  # a normalisation over fewer elements than this amplifies rounding errors


@dataclass
class Rule:
    """Which divisors are kept: up to `size_limit` of a size (none of a batch size if that is free), up to
    `product_limit` of the elements of a tensor, and of those of neighbouring axes if `neighbours`.
    """
    size_limit: int
    batch_is_free: bool
    product_limit: int
    neighbours: bool
    note: str


RULES = (
    Rule(4096, False, 4096, True, ""),
    Rule(32, True, 4096, True,
         "of single sizes, only divisors up to 32 were kept, and none of the batch size"),
    Rule(8, True, 4096, False,
         "of single sizes, only divisors up to 8 were kept, and none of the batch size"),
    Rule(4, True, 32, False, "of single sizes, only divisors up to 4 were kept, and none of the batch size"),
)


def shrunken(sizes: Sizes, work: Work, extents: Extents,
             answer: SizesOfAnswer) -> Tuple[List[Sizes], List[str]]:
    """Smaller sizes, the larger first, and notes on what was kept and given up; empty where none can be
    afforded.
    """
    divisors = answer.divisors()
    for rule in RULES:
        for pinned in answer.relies_on(sizes):
            free = [name for name, size in sizes.items() if size > SMALLEST_SHRUNKEN and name not in pinned]
            found = smaller(sizes, work, extents, divisors, free, rule, SHRUNKEN_WORK)
            if found and work(found) <= OWN_SHAPE_WORK:
                least = smaller(found, work, extents, divisors, free, rule, LEAST_WORK)
                return [found] + ([least] if least else []), _notes(sizes, pinned, rule)
    return [], []


def _notes(sizes: Sizes, pinned: Sequence[str], rule: Rule) -> List[str]:
    notes = ["smaller shapes: " + rule.note] if rule.note else []
    kept = [f"{name} = {sizes[name]}" for name in pinned if sizes[name] > SMALLEST_SHRUNKEN]
    if kept:
        notes.append("kept at the benchmark's size, because the answer has the same number as a literal: "
                     + ", ".join(kept))
    return notes


def smaller(sizes: Sizes, work: Work, extents: Extents, divisors: Sequence[int], free: Sequence[str],
            rule: Rule,
            limit: int) -> Optional[Sizes]:
    """Sizes whose work is at most `limit`, or as near as halving the free ones comes; None where none can be
    halved.
    """
    of_products = [divisor for divisor in divisors if divisor <= rule.product_limit]
    kept_products = [_dividing(product, of_products)
                     for product in _products(extents(sizes), rule.neighbours)]

    def cost_of(candidate: Sizes) -> Optional[int]:
        cost = work(candidate) if _keeps_groups(sizes, candidate) else None
        if cost is None:
            return None
        products = _products(extents(candidate), rule.neighbours)
        kept = all(product % divisor == 0 for product, kept in zip(products, kept_products)
                   for divisor in kept)
        return cost if kept else None

    def kept_of(name: str) -> List[int]:
        if rule.batch_is_free and BATCH.search(name):
            return []
        return [divisor for divisor in divisors if divisor <= rule.size_limit]

    current, cost = dict(sizes), work(sizes)
    while cost > limit:
        for names in _groups({name: size for name, size in current.items() if name in free
                              and size >= 2 * SMALLEST_SIZE}):
            candidate = {name: halved(size, kept_of(name)) if name in names else size for name,
                         size in current.items()}
            candidate_cost = cost_of(candidate) if candidate != current else None
            if candidate_cost is not None and candidate_cost < cost:
                current, cost = candidate, candidate_cost
                break
        else:
            break
    return current if current != sizes else None


def _keeps_groups(sizes: Sizes, candidate: Sizes) -> bool:
    """Whether sizes that are divided into groups stay so, with groups that are not much smaller."""
    for groups in (name for name in sizes if GROUPS.search(name) and sizes[name] > 1):
        for name, size in sizes.items():
            if not GROUPED.search(name) or size % sizes[groups] != 0 or size == sizes[groups]:
                continue
            least = min(size // sizes[groups], SMALLEST_GROUP)
            if candidate[name] % candidate[groups] != 0 or candidate[name] // candidate[groups] < least:
                return False
    return True


def _products(shapes: Sequence[Sequence[int]], neighbours: bool) -> List[int]:
    """Elements of each tensor; or those in each run of two or more neighbouring axes."""
    if not neighbours:
        return [prod(shape) for shape in shapes]
    return [prod(shape[first: last]) for shape in shapes for first in range(len(shape))
            for last in range(first + 2, len(shape) + 1)]


def _dividing(product: int, divisors: Sequence[int]) -> List[int]:
    return [divisor for divisor in divisors if product % divisor == 0]


def _groups(sizes: Sizes) -> List[List[str]]:
    """What to try to halve: the largest size first, alone, with its groups, or with its equals."""
    largest = sorted(sizes, key=lambda name: -sizes[name])
    groups = [name for name in largest if GROUPS.search(name)]
    together = [[other for other in largest if sizes[other] == sizes[name]] for name in largest]
    with_groups = [[name, *groups] for name in largest if groups and name not in groups]
    return [[name] for name in largest] + with_groups + [group for group in together if len(group) > 1]


def halved(size: int, divisors: Sequence[int]) -> int:
    """About half of `size`, a multiple of every divisor of `size`; `size` where there is no smaller one."""
    step = lcm(*_dividing(size, divisors)) if divisors else 1
    half = size // 2 // step * step
    if size % 2 == 1 and half % 2 == 0:
        half -= step  # an odd size stays odd
    return half if half > 0 else size
