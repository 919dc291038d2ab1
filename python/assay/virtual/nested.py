"""Nested tensors with strides between device and host: each is one buffer, and sizes that torch keeps on the host."""

from typing import Callable

import torch

# These describe a tensor, or compute with its buffer by operators of the CUDA key: torch's own implementation works.
NATIVE = frozenset(
    """
    _fused_sdp_choice _nested_tensor_size _nested_tensor_storage_offsets _nested_tensor_strides _to_copy alias chunk
    clone copy_ detach empty_like is_same_size narrow ones_like select.int split_with_sizes squeeze squeeze.dim
    squeeze.dims transpose.int unbind.int unsqueeze values view
    """.split()
)
KEY = "NestedTensorCUDA"


def moved(tensor: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The same nested tensor, with its buffer after `move`."""
    return torch._nested_view_from_buffer(
        move(tensor.values()),
        tensor._nested_tensor_size(),
        tensor._nested_tensor_strides(),
        tensor._nested_tensor_storage_offsets(),
    )
