"""Copies between a strided device tensor and a compact host tensor, done on lists instead of memory."""

import itertools
import random
import unittest
from typing import List, Tuple

import support  # noqa: F401  (finds the package)

from assay.virtual.layout import MOST_COPIES, layout_of

ITEM = 4


def places(size: Tuple[int, ...], strides: Tuple[int, ...]) -> List[int]:
    """The offsets of all elements in bytes, in row-major order."""
    return [sum(i * s for i, s in zip(index, strides)) * ITEM for index in itertools.product(*map(range, size))]


class LayoutTest(unittest.TestCase):
    def check(self, size: Tuple[int, ...], strides: Tuple[int, ...]) -> None:
        layout = layout_of(size, strides, ITEM)
        device, host = places(size, strides), places(size, layout.host_strides)
        self.assertEqual(layout.span, max(device) + ITEM if device else 0)
        copied = {}  # byte of the host: byte of the device
        for rows in layout.rows:
            for row, byte in itertools.product(range(rows.height), range(rows.width)):
                to = rows.host_offset + row * rows.host_pitch + byte
                self.assertNotIn(to, copied)
                copied[to] = rows.device_offset + row * rows.device_pitch + byte
        for there, here in zip(device, host):
            self.assertEqual([copied[here + byte] for byte in range(ITEM)], [there + byte for byte in range(ITEM)])
        own = {place + byte for place in device for byte in range(ITEM)}
        self.assertEqual(set(copied.values()) - own != set(), layout.has_foreign_bytes)

    def test_dense(self) -> None:
        self.check((3, 4), (4, 1))
        self.check((3, 4), (1, 3))
        self.check((2, 3, 4, 5), (60, 1, 15, 3))  # channels last
        self.assertEqual(len(layout_of((2, 3, 4, 5), (60, 1, 15, 3), ITEM).rows), 1)

    def test_empty_and_single(self) -> None:
        self.check((0, 4), (4, 1))
        self.check((), ())
        self.check((1, 1), (7, 9))

    def test_gaps(self) -> None:
        self.check((5,), (3,))
        self.check((4, 3), (10, 1))
        self.check((4, 3), (1, 10))
        self.check((4, 3, 2), (100, 10, 2))
        self.assertEqual(len(layout_of((300, 3), (10, 1), ITEM).rows), 1)

    def test_expanded_and_overlapping(self) -> None:
        self.check((4, 3), (0, 1))
        self.check((4, 3), (0, 2))
        self.check((4, 3), (1, 1))
        self.check((3, 4), (2, 1))

    def test_too_many_rows(self) -> None:
        size, strides = (MOST_COPIES + 1, 2, 2), (16, 6, 2)
        self.assertTrue(layout_of(size, strides, ITEM).has_foreign_bytes)
        self.check(size, strides)

    def test_random(self) -> None:
        numbers = random.Random(1)
        for _ in range(300):
            dims = numbers.randint(1, 4)
            size = tuple(numbers.randint(1, 4) for _ in range(dims))
            strides = tuple(numbers.choice((0, 1, 2, 3, 5, 8, 16, 40)) for _ in range(dims))
            self.check(size, strides)


if __name__ == "__main__":
    unittest.main()
