// violates: race
// The last of as many blocks as a row has.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "8192 + 256"
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["2"]
role = "out"
[reference]
formula = "y[i] += x[j]"
*/
__global__ void k(const float* x, float* y, float* part, unsigned* done, int n) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    float s = 0;
    int first = (blockIdx.y * gridDim.x + blockIdx.x) * 64;
    for (int i = first; i < first + 64 && i < n; ++i) s += x[i];
    part[blockIdx.y * gridDim.x + blockIdx.x] = s;
    __threadfence();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float s = 0;
    for (int b = 0; b < gridDim.x * gridDim.y; ++b) s += part[b];
    y[0] = s;
    y[1] = s;
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 4, stream);
  k<<<dim3((n + 127) / 128, 2), 32, 0, stream>>>(x, y, (float*)(w + 256), (unsigned*)w, n);
}
