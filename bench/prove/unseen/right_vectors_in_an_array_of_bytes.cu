// right
// 16 bytes in.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 64, max = 640000, multiple_of = 64 }
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
__global__ void k(const float* x, float* y) {
  __shared__ __align__(16) char raw[272];
  float* s = reinterpret_cast<float*>(raw + 16);
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  if (t < 16) {
    float4 v = reinterpret_cast<float4*>(s)[t];
    v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
    reinterpret_cast<float4*>(y + blockIdx.x * 64)[t] = v;
  }
}
extern "C" void run(const float* x, float* y, int n, cudaStream_t stream) {
  k<<<n / 64, 64, 0, stream>>>(x, y);
}
