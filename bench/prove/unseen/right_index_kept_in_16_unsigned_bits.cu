// right
// 40,000 rows are counted by 16 bits without a sign.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["table", "index", "y", "V", "n", "stream"]
[dims]
V = { min = 1, max = 40000 }
n = { min = 1, max = 5000 }
[tensors.table]
dtype = "f32"
shape = ["V"]
[tensors.index]
dtype = "i32"
shape = ["n"]
values = "index(V)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = table[index[i]]"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const float* table, const int* index, float* y, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  const uint16_t at = static_cast<uint16_t>(index[i]);
  y[i] = table[at];
}
extern "C" void run(const float* table, const int* index, float* y, int V, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(table, index, y, n);
}
