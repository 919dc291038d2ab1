// violates: coverage
// A counter of a byte never gets to 256.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 256 }
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
  for (unsigned char i = threadIdx.x; i < 256; i += 128) {
    if (i < n) y[i] = 2 * x[i];
    if (i >= 128) break;
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<1, 64, 0, stream>>>(x, y, n);
}
