// violates: race
// The producer does not wait for the answer before it writes again.
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
  if (blockIdx.x == 0) {
    *data = 2 * x[0];
    __threadfence();
    flag[0] = 1;
    
    *data = 2 * x[1];
    __threadfence();
    flag[2] = 1;
  } else {
    while (flag[0] == 0) {}
    __threadfence();
    y[0] = *data;
    __threadfence();
    flag[1] = 1;
    while (flag[2] == 0) {}
    __threadfence();
    y[1] = *data;
  }
}
extern "C" void run(const float* x, float* y, int n, char* w, cudaStream_t stream) {
  cudaMemsetAsync(w, 0, 16, stream);
  k<<<2, 1, 0, stream>>>(x, y, reinterpret_cast<unsigned*>(w), reinterpret_cast<float*>(w + 256));
}
