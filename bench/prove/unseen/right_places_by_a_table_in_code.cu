// right
// Four have four places.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 4, max = 1000000, multiple_of = 4 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
*/
__global__ void k(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int place;
  switch (i & 3) {
    case 0: place = 3; break;
    case 1: place = 1; break;
    case 2: place = 0; break;
    default: place = 2;
  }
  const int j = (i & ~3) + place;
  y[j] = 2 * x[j];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
