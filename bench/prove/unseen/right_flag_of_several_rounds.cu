// right
// Each round has a place of its own.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "512"
[dims]
n = { min = 4, max = 4 }
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
  if (blockIdx.x == 0) {
    for (unsigned round = 0; round < 4; ++round) {
      data[round] = 2 * x[round];
      __threadfence();
      *flag = round + 1;
    }
  } else {
    for (unsigned round = 0; round < 4; ++round) {
      while (*flag < round + 1) {}
      __threadfence();
      y[round] = data[round];
    }
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 4, stream);
  k<<<2, 1, 0, stream>>>(x, y, reinterpret_cast<unsigned*>(w), reinterpret_cast<float*>(w + 256));
}
