// right
// It counts slices of gridDim.y rows.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "B", "H", "W", "stream"]
[dims]
B = { min = 1, max = 64 }
H = { min = 1, max = 64 }
W = { min = 1, max = 1024 }
[tensors.x]
dtype = "f32"
shape = ["B", "H", "W"]
[tensors.y]
dtype = "f32"
shape = ["B", "H", "W"]
role = "out"
[reference]
formula = "y[b, h, w] = 2 * x[b, h, w]"
*/
__global__ void k(const float* x, float* y, int W) {
  const int w = blockIdx.x * blockDim.x + threadIdx.x;
  const size_t row = blockIdx.z * gridDim.y + blockIdx.y;
  if (w < W) y[row * W + w] = 2 * x[row * W + w];
}
extern "C" void run(const float* x, float* y, int B, int H, int W, cudaStream_t stream) {
  k<<<dim3((W + 127) / 128, H, B), 128, 0, stream>>>(x, y, W);
}
