// right
// All threads leave a number before a barrier; one announces them; one waits for all.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "workspace", "R", "stream"]
workspace_bytes = "16 + 1040 * ceil_div(R, 16)"
[dims]
R = { min = 1, max = 5000 }
C = 64
[tensors.x]
dtype = "i32"
shape = ["R", "C"]
values = "integers(0, 1000)"
[tensors.y]
dtype = "i32"
shape = ["R", "C"]
role = "out"
[reference]
formula = "y[r, c] = sum[j | j <= r](x[j, c])"
*/
#include <cuda_runtime.h>

#include <cstdint>

__global__ void k(const int* x, int* y, unsigned* next, unsigned* flags, int* carry, int rows) {
  __shared__ int tile;
  const int c = threadIdx.x;
  if (c == 0) tile = atomicAdd(next, 1u);
  __syncthreads();
  const int first = tile * 16, last = min(rows, first + 16);
  int sum = 0;
  for (int r = first; r < last; ++r) sum += x[r * 64 + c];
  if (c == 0) {
    if (tile > 0) {
      while (*const_cast<volatile unsigned*>(&flags[tile - 1]) == 0) {
      }
      __threadfence();
    }
  }
  __syncthreads();
  int total = tile > 0 ? __ldcg(&carry[(tile - 1) * 64 + c]) : 0;
  carry[tile * 64 + c] = total + sum;
  __syncthreads();
  if (c == 0) {
    __threadfence();
    atomicExch(&flags[tile], 1u);
  }
  for (int r = first; r < last; ++r) {
    total += x[r * 64 + c];
    y[r * 64 + c] = total;
  }
}
extern "C" void run(const int* x, int* y, void* workspace, int rows, cudaStream_t stream) {
  const int tiles = (rows + 15) / 16;
  unsigned* next = static_cast<unsigned*>(workspace);
  unsigned* flags = next + 4;
  cudaMemsetAsync(workspace, 0, 16 + 4 * tiles, stream);
  k<<<tiles, 64, 0, stream>>>(x, y, next, flags, reinterpret_cast<int*>(flags + tiles), rows);
}
