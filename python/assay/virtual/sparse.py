"""Sparse tensors between device and host: each is a few dense tensors and its size."""

from typing import Callable

import torch

from .runtime import Unsupported

# These describe a tensor or move its parts: torch's own implementation works.
NATIVE = frozenset(
    """
    _coalesced_ _dimI _dimV _indices _nnz _values ccol_indices clone col_indices copy_ copy_sparse_to_sparse_
    crow_indices dense_dim empty.memory_format empty_like indices is_coalesced permute resize_as_sparse_ row_indices
    sparse_dim sparse_resize_ sparse_resize_and_clear_ unsqueeze values view_as_complex view_as_real
    _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors _sparse_compressed_tensor_with_dims resize_
    resize_as_sparse_compressed_ select.int detach
    """.split()
)
KEYS = ("SparseCUDA", "SparseCsrCUDA")


def moved(tensor: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The same sparse tensor, made of its parts after `move`."""
    if tensor.layout == torch.sparse_coo:
        parts = move(tensor._indices()), move(tensor._values())
        return torch.sparse_coo_tensor(
            *parts, tensor.size(), is_coalesced=tensor.is_coalesced(), check_invariants=False
        )
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        outer, inner = tensor.crow_indices(), tensor.col_indices()
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        outer, inner = tensor.ccol_indices(), tensor.row_indices()
    else:
        raise Unsupported(f"a tensor with layout {tensor.layout} cannot be moved to or from the virtual GPU")
    return torch.sparse_compressed_tensor(
        move(outer), move(inner), move(tensor.values()), tensor.size(), layout=tensor.layout, check_invariants=False
    )
