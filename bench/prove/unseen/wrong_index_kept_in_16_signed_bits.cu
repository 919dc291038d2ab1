// violates: values
// With a sign, 16 bits do not hold the rows from 32,768 on: the first row is read for them. The number that wraps decides which
// of two indices is taken, and is none itself.
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
  const int16_t at = static_cast<int16_t>(index[i]);
  y[i] = at < 0 ? table[0] : table[at];
}
extern "C" void run(const float* table, const int* index, float* y, int V, int n, cudaStream_t stream) {
  k<<<(n + 63) / 64, 64, 0, stream>>>(table, index, y, n);
}
