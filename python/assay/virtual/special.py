"""Operators whose CUDA kernel differs from that of the CPU: those that only CUDA has, as far as programs use them, and
those where the CPU accepts fewer types. All functions here take and return host tensors."""

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from . import attention

aten = torch.ops.aten


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    return aten._softmax(x.float() if half_to_float else x, dim, False)


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    return aten._log_softmax(x.float() if half_to_float else x, dim, False)


def _softmax_backward(grad: torch.Tensor, y: torch.Tensor, dim: int, input_dtype: torch.dtype) -> torch.Tensor:
    return aten._softmax_backward_data(grad, y, dim, grad.dtype).to(input_dtype)


def _log_softmax_backward(grad: torch.Tensor, y: torch.Tensor, dim: int, input_dtype: torch.dtype) -> torch.Tensor:
    return aten._log_softmax_backward_data(grad, y, dim, grad.dtype).to(input_dtype)


def _without_onednn(compute: Callable) -> Callable:
    """The operator as torch computes it on the CPU without oneDNN, whose results for infinities and the largest numbers
    are others than those of a GPU."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        was_enabled = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            return compute(*args, **kwargs)
        finally:
            torch._C._set_mkldnn_enabled(was_enabled)

    return wrapped


def _mm(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    return torch.matmul(a.to(out_dtype), b.to(out_dtype))


def _addmm(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    return beta * c.to(out_dtype) + alpha * _mm(a, b, out_dtype)


def _into(compute: Callable) -> Callable:
    """The form of an operator that stores its result in `out`."""

    def wrapped(*args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        result = compute(*args, **kwargs)
        return out.resize_(result.size()).copy_(result)

    return wrapped


# ---- Convolutions of cuDNN, which TorchScript puts into models that it optimises ----


def _cudnn_convolution(
    x: torch.Tensor, weight: torch.Tensor, padding: Any, stride: Any, dilation: Any, groups: int, *flags: bool
) -> torch.Tensor:
    return aten.convolution(x, weight, None, stride, padding, dilation, False, [0] * len(padding), groups)


def _cudnn_convolution_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    padding: Any,
    output_padding: Any,
    stride: Any,
    dilation: Any,
    groups: int,
    *flags: bool,
) -> torch.Tensor:
    return aten.convolution(x, weight, None, stride, padding, dilation, True, output_padding, groups)


def _cudnn_convolution_relu(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional[torch.Tensor],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> torch.Tensor:
    return aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups).relu()


def _cudnn_convolution_add_relu(
    x: torch.Tensor,
    weight: torch.Tensor,
    z: torch.Tensor,
    alpha: Optional[float],
    bias: Optional[torch.Tensor],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> torch.Tensor:
    y = aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups)
    return (y + (1 if alpha is None else alpha) * z).relu()


# ---- Recurrent cells: torch fuses them on CUDA ----


def _lstm_gates(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, bias: Optional[torch.Tensor], more: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, ...]:
    gates = input_gates + hidden_gates
    if bias is not None:
        gates = gates + bias
    if more is not None:
        gates = gates + more
    i, f, g, o = gates.chunk(4, 1)
    return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()


def _lstm_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: Optional[torch.Tensor] = None,
    hidden_bias: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    i, f, g, o = _lstm_gates(input_gates, hidden_gates, input_bias, hidden_bias)
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(
    grad_hy: Optional[torch.Tensor],
    grad_cy: Optional[torch.Tensor],
    cx: torch.Tensor,
    cy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    i, f, g, o = workspace.chunk(4, 1)
    grad_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    tanh = cy.tanh()
    grad_c = grad_hy * o * (1 - tanh * tanh)
    if grad_cy is not None:
        grad_c = grad_c + grad_cy
    gates = torch.cat(
        [grad_c * g * i * (1 - i), grad_c * cx * f * (1 - f), grad_c * i * (1 - g * g), grad_hy * tanh * o * (1 - o)], 1
    )
    return gates, grad_c * f, gates.sum(0) if has_bias else torch.empty(0, dtype=gates.dtype)


def _gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: Optional[torch.Tensor] = None,
    hidden_bias: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    if input_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    ri, zi, ni = input_gates.chunk(3, 1)
    rh, zh, nh = hidden_gates.chunk(3, 1)
    r, z = (ri + rh).sigmoid(), (zi + zh).sigmoid()
    n = (ni + r * nh).tanh()
    return (hx - n) * z + n, torch.cat([r, z, n, hx, nh], 1)


def _gru_cell_backward(grad_hy: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> Tuple[torch.Tensor, ...]:
    r, z, n, hx, nh = workspace.chunk(5, 1)
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_z = grad_hy * (hx - n) * z * (1 - z)
    grad_r = grad_n * nh * r * (1 - r)
    inputs, hidden = torch.cat([grad_r, grad_z, grad_n], 1), torch.cat([grad_r, grad_z, grad_n * r], 1)
    none = torch.empty(0, dtype=inputs.dtype)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (none, none)
    return (inputs, hidden, grad_hy * z) + biases


# ---- Normalisation ----


def _rms_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: List[int],
    rstd: torch.Tensor,
    weight: Optional[torch.Tensor],
    mask: List[bool],
) -> Tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
    inner = list(range(x.dim() - len(shape), x.dim()))
    outer = list(range(x.dim() - len(shape)))
    wide = rstd.to(torch.promote_types(rstd.dtype, torch.float32))
    normal = x.to(wide.dtype) * wide
    scaled = grad.to(wide.dtype) * (1 if weight is None else weight.to(wide.dtype))
    grad_x = (wide * (scaled - normal * (scaled * normal).mean(inner, keepdim=True))).to(x.dtype)
    grad_weight = None
    if weight is not None:
        product = grad.to(wide.dtype) * normal
        grad_weight = (product.sum(outer) if outer else product).to(weight.dtype)
    return grad_x if mask[0] else None, grad_weight if mask[1] else None


IMPLEMENTATIONS: Dict[str, Callable] = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    # oneDNN: GELU of infinity is NaN, and of 3.4e38 infinity.
    "gelu": _without_onednn(aten.gelu.default),
    "gelu_": _without_onednn(aten.gelu_.default),
    "gelu.out": _without_onednn(aten.gelu.out),
    "gelu_backward": _without_onednn(aten.gelu_backward.default),
    "gelu_backward.grad_input": _without_onednn(aten.gelu_backward.grad_input),
    **{f"{name}.dtype": _mm for name in ("mm", "bmm")},
    **{f"{name}.dtype_out": _into(_mm) for name in ("mm", "bmm")},
    **{f"{name}.dtype": _addmm for name in ("addmm", "baddbmm")},
    **{f"{name}.dtype_out": _into(_addmm) for name in ("addmm", "baddbmm")},
    "cudnn_convolution": _cudnn_convolution,
    "cudnn_convolution_transpose": _cudnn_convolution_transpose,
    "cudnn_convolution_relu": _cudnn_convolution_relu,
    "cudnn_convolution_add_relu": _cudnn_convolution_add_relu,
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "_fused_rms_norm_backward": _rms_norm_backward,
    **attention.IMPLEMENTATIONS,
}


# ---- Types that the CPU's kernel does not take ----

_NARROW = {"Half": torch.float16, "BFloat16": torch.bfloat16, "ComplexHalf": torch.complex32}
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def wider_type(error: str) -> Optional[Tuple[torch.dtype, torch.dtype]]:
    """The dtype that the CPU's kernel does not take, by its error, and the one to compute in; None: another error."""
    match = re.search(r"not implemented for '(\w+)'", error)
    narrow = _NARROW.get(match.group(1)) if match else None
    return None if narrow is None else (narrow, _WIDER[narrow])


def run_wider(compute: Callable, args: Any, kwargs: Any, narrow: torch.dtype, wide: torch.dtype) -> Any:
    """Computes in the wider dtype and rounds the results."""
    seen = set()

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            seen.add(value.dtype)
            return value.to(wide) if value.dtype == narrow else value
        if isinstance(value, (list, tuple)):
            return [widen(item) for item in value]
        return wide if value is narrow else value

    def round_to(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(narrow) if value.dtype == wide and wide not in seen else value
        if isinstance(value, (list, tuple)):
            return type(value)(round_to(item) for item in value)
        return value

    wide_args = [widen(arg) for arg in args]
    wide_kwargs = {key: widen(value) for key, value in kwargs.items()}
    return round_to(compute(*wide_args, **wide_kwargs))
