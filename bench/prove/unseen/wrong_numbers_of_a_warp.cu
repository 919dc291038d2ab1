// violates: race
// Half as many as there are lanes.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "4"
[dims]
n = { min = 32, max = 1000000, multiple_of = 32 }
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
  __shared__ unsigned drawn;
  for (;;) {
    if (threadIdx.x == 0) drawn = atomicAdd(next, 16);
    __syncthreads();
    unsigned i = drawn + threadIdx.x;
    __syncthreads();
    if (i >= n) return;
    y[i] = (threadIdx.x < 16 ? 2 : 3) * x[i];
  }
}
extern "C" void run(const float* x, float* y, int n, unsigned* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 4, stream);
  k<<<16, 32, 0, stream>>>(x, y, n, w);
}
