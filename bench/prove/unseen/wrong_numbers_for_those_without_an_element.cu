// violates: bounds
// Threads beyond the end draw numbers, too.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "4"
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
__global__ void k(const float* x, float* y, int n, unsigned* next) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  
  const unsigned mine = atomicAdd(next, 1);
  if (i >= n + 300) return;
  y[mine] = 2 * x[mine];
}
extern "C" void run(const float* x, float* y, int n, void* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 4, stream);
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, static_cast<unsigned*>(w));
}
