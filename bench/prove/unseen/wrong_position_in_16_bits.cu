// violates: overflow, coverage
// Beyond 65,536 elements the position begins again.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 100000 }
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
__global__ void kernel(const float* x, float* y, int n) {
  for (unsigned short i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  kernel<<<4, 256, 0, stream>>>(x, y, n);
}
