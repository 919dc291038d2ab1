// right
// The second from its beginning.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["a", "b", "y", "h", "stream"]
[dims]
h = { min = 1, max = 500000 }
n = "2 * h"
[tensors.a]
dtype = "f32"
shape = ["h"]
[tensors.b]
dtype = "f32"
shape = ["h"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * (if i < h then a[i] else b[i - h])"
*/
__global__ void k(const float* a, const float* b, float* y, int h) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= 2 * h) return;
  const float* p = i < h ? a : b;
  y[i] = 2 * p[i < h ? i : i - h];
}
extern "C" void run(const float* a, const float* b, float* y, int h, cudaStream_t stream) {
  k<<<(2 * h + 63) / 64, 64, 0, stream>>>(a, b, y, h);
}
