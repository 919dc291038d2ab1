// right
// Each round has a flag.
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
  for (int round = 0; round < 2; ++round) {
    if (blockIdx.x == 0) {
      data[round] = 2 * x[round];
      __threadfence();
      flag[round] = 1;
    } else {
      while (flag[round] == 0) {}
      __threadfence();
      y[round] = data[round];
      
    }
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 16, stream);
  k<<<2, 1, 0, stream>>>(x, y, reinterpret_cast<unsigned*>(w), reinterpret_cast<float*>(w + 256));
}
