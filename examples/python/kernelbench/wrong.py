import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void row_sums_kernel(const half* x, half* y, int rows, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  half sum = __float2half(0);  // wrong: half has 11 bits, and every addition rounds
  for (int i = 0; i < cols; ++i) sum = __hadd(sum, x[row * cols + i]);
  y[row] = sum;
}

torch::Tensor row_sums(torch::Tensor x) {
  const int rows = x.size(0), cols = x.size(1);
  auto y = torch::empty({rows}, x.options());
  row_sums_kernel<<<(rows + 127) / 128, 128>>>(reinterpret_cast<const half*>(x.data_ptr<at::Half>()),
                                               reinterpret_cast<half*>(y.data_ptr<at::Half>()), rows, cols);
  return y;
}
"""

row_sums = load_inline(
    name="row_sums_wrong",
    cpp_sources="torch::Tensor row_sums(torch::Tensor x);",
    cuda_sources=source,
    functions=["row_sums"],
)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return row_sums.row_sums(x)
