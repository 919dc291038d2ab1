// violates: bounds
// Memory of its own for every other element.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
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
__global__ void kernel(const float* x, float* own, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  own[i / 2 + i % 2] = x[i];
  y[i] = 2 * x[i];
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  float* own;
  cudaMalloc(&own, (n + 1) / 2 * sizeof(float));
  kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, own, y, n);
  cudaStreamSynchronize(stream);
  cudaFree(own);
}
