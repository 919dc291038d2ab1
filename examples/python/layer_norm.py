"""A layer norm in CUDA C++, built with load_inline and checked against torch. `python layer_norm.py` prints
both reports."""

import torch
from torch.utils.cpp_extension import load_inline

import assay

SOURCE = r"""
#include <torch/extension.h>

// The sum over a block. Every thread gets it.
__device__ float block_sum(float value) {
  __shared__ float partial[32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  BARRIER
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += partial[warp];
  return sum;
}

__global__ void layer_norm_kernel(const float* x, const float* weight, const float* bias, float* y, int cols,
                                  float eps) {
  x += (size_t)blockIdx.x * cols;
  y += (size_t)blockIdx.x * cols;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += x[i];
  const float mean = block_sum(sum) / cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) squares += (x[i] - mean) * (x[i] - mean);
  const float scale = rsqrtf(block_sum(squares) / cols + eps);
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  auto y = torch::empty_like(x);
  layer_norm_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                        y.data_ptr<float>(), x.size(1), eps);
  return y;
}
"""
DECLARATION = (
    "torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);"
)


def build(name, barrier):
    return load_inline(
        name,
        cpp_sources=DECLARATION,
        cuda_sources=SOURCE.replace("BARRIER", barrier),
        functions=["layer_norm"],
    )


def layer_norm(x, weight, bias, eps):
    return build("layer_norm", "__syncthreads();").layer_norm(x, weight, bias, eps)


def racing_layer_norm(x, weight, bias, eps):
    # Wrong: the second sum overwrites `partial` while slower warps still read the first.
    return build("racing_layer_norm", "").layer_norm(x, weight, bias, eps)


def reference(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias, eps)


def check(function, budget=10.0):
    return assay.check(
        function,
        reference=reference,
        shapes={"x": ("rows", "cols"), "weight": ("cols",), "bias": ("cols",)},
        dims={"rows": (1, 64), "cols": (1, 2048)},
        scalars={"eps": 1e-5},
        values={"x": "activations"},
        budget=budget,
    )


if __name__ == "__main__":
    for function in (racing_layer_norm, layer_norm):
        print(check(function))
