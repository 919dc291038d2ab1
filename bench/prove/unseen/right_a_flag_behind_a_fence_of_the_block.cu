// right
// Written, fenced, met, announced.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "512"
[dims]
n = { min = 64, max = 64 }
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
__global__ void k(const float* x, float* y, volatile unsigned* flag, float* data, int n) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 2 * x[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
  } else {
    if (threadIdx.x == 0) {
      while (*flag == 0) {}
      __threadfence();
    }
    __syncthreads();
    y[threadIdx.x] = data[threadIdx.x];
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 4, stream);
  k<<<2, 64, 0, stream>>>(x, y, (unsigned*)w, (float*)(w + 256), n);
}
