// violates: bounds
// The first kernel writes indices up to n.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "4 * n"
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
__global__ void first(int* index, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) index[i] = n - i;
}
__global__ void second(const int* index, const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[index[i]] = 2 * x[index[i]];
}
extern "C" void run(const float* x, float* y, int n, void* w, cudaStream_t stream) {
  first<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<int*>(w), n);
  second<<<(n + 255) / 256, 256, 0, stream>>>(static_cast<int*>(w), x, y, n);
}
