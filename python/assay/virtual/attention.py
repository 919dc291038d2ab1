"""The fused attention operators of CUDA (flash, memory-efficient, cuDNN), computed on the CPU in float32.

torch takes them only where a program asks for them, because Assay turns them off: `sdpa_kernel(FLASH_ATTENTION)`, say.
All three are one formula with different lists of arguments and results. Queries are (batch, heads, rows, width); keys and
values may have fewer heads, each of which then serves several heads of queries.
"""

import math
from typing import Any, Callable, Dict, Optional, Tuple

import torch

from .runtime import Unsupported


def _refuse_dropout(p: float) -> None:
    if p > 0:
        raise Unsupported("fused attention with dropout cannot run on the virtual GPU; use the math backend")


def _scores(
    q: torch.Tensor, k: torch.Tensor, bias: Optional[torch.Tensor], is_causal: bool, scale: Optional[float]
) -> Tuple[torch.Tensor, float]:
    factor = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    scores = torch.matmul(q.float(), k.float().transpose(-2, -1)) * factor
    if bias is not None:
        scores = scores + bias.float()
    if is_causal:
        hidden = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device="cpu").triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores, factor


def _heads_of(x: torch.Tensor, count: int) -> torch.Tensor:
    return x if x.size(1) == count else x.repeat_interleave(count // x.size(1), 1)


def _sum_heads(gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if gradient.size(1) != like.size(1):
        gradient = gradient.unflatten(1, (like.size(1), -1)).sum(2)
    return gradient.to(like.dtype)


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Optional[torch.Tensor], causal: bool, scale: Optional[float]
) -> Tuple[torch.Tensor, torch.Tensor]:
    """The output, and the logarithm of the sum of exponentials of each row."""
    k, values = _heads_of(k, q.size(1)), _heads_of(v, q.size(1))
    scores, _ = _scores(q, k, bias, causal, scale)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # a row without anything visible is zero
    return torch.matmul(weights, values.float()).to(q.dtype), torch.logsumexp(scores, -1)


def backward(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    causal: bool,
    scale: Optional[float],
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of queries, keys, values and scores."""
    keys, values = _heads_of(k, q.size(1)).float(), _heads_of(v, q.size(1)).float()
    scores, factor = _scores(q, keys, bias, causal, scale)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    gradient = gradient.float()
    of_weights = torch.matmul(gradient, values.transpose(-2, -1))
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    of_q = torch.matmul(of_scores, keys) * factor
    of_k = torch.matmul(of_scores.transpose(-2, -1), q.float()) * factor
    of_v = torch.matmul(weights.transpose(-2, -1), gradient)
    return of_q.to(q.dtype), _sum_heads(of_k, k), _sum_heads(of_v, v), of_scores


def _numbers() -> Tuple[torch.Tensor, torch.Tensor]:
    """The state of the random numbers that dropout would take."""
    return torch.zeros(2, dtype=torch.uint64, device="cpu"), torch.zeros((), dtype=torch.uint64, device="cpu")


def _flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: Optional[float] = None,
) -> Tuple[Any, ...]:
    return _cudnn(q, k, v, None, True, dropout, causal, debug, scale=scale)


def _flash_backward(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    starts_q: Any,
    starts_k: Any,
    most_q: int,
    most_k: int,
    dropout: float,
    causal: bool,
    seed: Any,
    offset: Any,
    *,
    scale: Optional[float] = None,
) -> Tuple[torch.Tensor, ...]:
    return backward(gradient, q, k, v, None, causal, scale)[:3]


def _efficient(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    with_logsumexp: bool,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: Optional[float] = None,
) -> Tuple[torch.Tensor, ...]:
    _refuse_dropout(dropout)
    return (*forward(q, k, v, bias, causal, scale), *_numbers())


def _efficient_backward(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    seed: Any,
    offset: Any,
    dropout: float,
    mask: Any,
    causal: bool = False,
    *,
    scale: Optional[float] = None,
) -> Tuple[Any, ...]:
    *of_qkv, of_scores = backward(gradient, q, k, v, bias, causal, scale)
    of_bias = of_scores.sum_to_size(bias.size()).to(bias.dtype) if bias is not None and mask[3] else None
    return (*of_qkv, of_bias)


def _cudnn(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: Optional[torch.Tensor],
    with_logsumexp: bool,
    dropout: float = 0.0,
    causal: bool = False,
    debug: bool = False,
    *,
    scale: Optional[float] = None,
) -> Tuple[Any, ...]:
    _refuse_dropout(dropout)
    return (*forward(q, k, v, bias, causal, scale), None, None, q.size(2), k.size(2), *_numbers(), q.new_empty(0))


def _cudnn_backward(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    seed: Any,
    offset: Any,
    bias: Optional[torch.Tensor],
    starts_q: Any,
    starts_k: Any,
    most_q: int,
    most_k: int,
    dropout: float,
    causal: bool,
    *,
    scale: Optional[float] = None,
) -> Tuple[torch.Tensor, ...]:
    return backward(gradient, q, k, v, bias, causal, scale)[:3]


IMPLEMENTATIONS: Dict[str, Callable] = {
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention": _efficient,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_cudnn_attention": _cudnn,
    "_scaled_dot_product_cudnn_attention_backward": _cudnn_backward,
}
