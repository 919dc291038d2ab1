// right
// The host clears the flag for all sizes.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "workspace", "stream"]
workspace_bytes = "512"
[dims]
n = { min = 4, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["1"]
role = "out"
[reference]
formula = "y[z] = 2 * x[0]"
*/
__global__ void k(const float* x, float* y, volatile unsigned* flag, float* data) {
  if (blockIdx.x == 0) {
    *data = 2 * x[0];
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {}
    __threadfence();
    y[0] = *data;
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 256, stream);
  void* other = y;
  cudaMemsetAsync(other, 1, 4, stream);
  k<<<2, 1, 0, stream>>>(x, y, reinterpret_cast<unsigned*>(w), reinterpret_cast<float*>(w + 256));
}
