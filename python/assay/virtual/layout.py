"""How the elements of a tensor lie in memory, as copies need it.

A tensor whose elements lie without gaps is one range of bytes, whatever the order of its dimensions. One with gaps (a
column of a matrix, every other row) is copied row by row into a compact host tensor with the same order of dimensions,
so that a copy neither reads nor writes bytes that belong to other tensors.
"""

import functools
from typing import List, NamedTuple, Optional, Tuple

# Copies with more rows-of-rows than this are not worth it: the whole range is copied instead.
MOST_COPIES = 256


class Rows(NamedTuple):
    """One two-dimensional copy: where it starts, in bytes, and how far its rows lie apart."""

    device_offset: int
    host_offset: int
    width: int
    height: int
    device_pitch: int
    host_pitch: int


class Layout(NamedTuple):
    """The bytes of a tensor from its first to its last element, and how to copy them."""

    span: int  # bytes
    host_strides: Tuple[int, ...]  # of the host tensor, in elements
    rows: List[Rows]
    has_foreign_bytes: bool = False  # one row that holds bytes between the elements, too: read it before writing it


def span_in_bytes(size: Tuple[int, ...], strides: Tuple[int, ...], item: int) -> int:
    """The bytes from the first element to the end of the last one."""
    last = 0
    for extent, stride in zip(size, strides):
        if extent == 0:
            return 0
        last += (extent - 1) * stride
    return (last + 1) * item


@functools.lru_cache(maxsize=4096)
def layout_of(size: Tuple[int, ...], strides: Tuple[int, ...], item: int) -> Layout:
    """The layout of a tensor with elements of `item` bytes."""
    span = span_in_bytes(size, strides, item)
    one_piece = [Rows(0, 0, span, 1, span, span)] if span else []
    # Extents and strides of the dimensions along which elements differ, smallest stride first.
    dims = sorted(
        (stride, extent, at)
        for at, (extent, stride) in enumerate(zip(size, strides))
        if extent > 1 and stride > 0
    )
    reached, has_gaps, is_shared = 1, False, False
    for stride, extent, _ in dims:
        has_gaps = has_gaps or stride > reached
        is_shared = is_shared or stride < reached  # elements that share memory: no rows
        reached += stride * (extent - 1)
    whole = Layout(span, strides, one_piece, has_gaps)
    if not has_gaps or is_shared:
        return whole
    host_strides = [0] * len(size)
    levels = []  # [extent, device stride, host stride], in elements, merged where they follow each other
    compact = 1
    for stride, extent, at in dims:
        host_strides[at] = compact
        if levels and levels[-1][1] * levels[-1][0] == stride:
            levels[-1][0] *= extent
        else:
            levels.append([extent, stride, compact])
        compact *= extent
    for at, extent in enumerate(size):
        if extent == 1:
            host_strides[at] = compact
    rows = _rows(levels, item)
    return whole if rows is None else Layout(span, tuple(host_strides), rows)


def _rows(levels: List[List[int]], item: int) -> Optional[List[Rows]]:
    width = item
    if levels[0][1] == 1:
        width *= levels[0][0]
        levels = levels[1:]
    extent, device_stride, host_stride = levels[0]
    starts = [(0, 0)]
    for more, device, host in levels[1:]:
        if len(starts) * more > MOST_COPIES:
            return None
        starts = [(d + i * device * item, h + i * host * item) for d, h in starts for i in range(more)]
    return [Rows(d, h, width, extent, device_stride * item, host_stride * item) for d, h in starts]
