// right
// The host fills all of them.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 2, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = if i == 0 then 2 * x[0] else 0"
*/
__global__ void k(const float* x, float* y) { y[0] = 2 * x[0]; }
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  cudaMemsetAsync(y, 0, 4ll * n, stream);
  k<<<1, 1, 0, stream>>>(x, y);
}
