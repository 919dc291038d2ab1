// violates: race
// Either of two threads sets the flag, when it has written its own.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "512"
[dims]
n = { min = 2, max = 2 }
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
__global__ void k(const float* x, float* y, volatile unsigned* flag, float* data) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 2 * x[t];
    __threadfence();
    flag[0] = 1;
  } else {
    while (flag[0] == 0) {}
    __threadfence();
    y[t] = data[t] + (data[1 - t] > 1e38f ? 1 : 0);
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 16, stream);
  k<<<2, 2, 0, stream>>>(x, y, reinterpret_cast<unsigned*>(w), reinterpret_cast<float*>(w + 256));
}
