"""Ordinary GPU tests. On a machine without a GPU: `pytest --assay`."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from softmax import softmax


@pytest.mark.parametrize("cols", [1, 31, 128])
def test_against_torch(cols):
    x = torch.randn(4, cols, device="cuda")
    torch.testing.assert_close(softmax(x), torch.softmax(x, -1))


def test_whole_range(assay_check):
    assay_check(
        softmax,
        reference=lambda x: torch.softmax(x, -1),
        shapes={"x": ("rows", "cols")},
        dims={"rows": (1, 64), "cols": (1, 1024)},
        budget=5,
    )
