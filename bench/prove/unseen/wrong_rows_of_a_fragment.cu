// violates: bounds
// The last eight rows may be missing.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "M", "stream"]
[dims]
M = { min = 8, max = 4096, multiple_of = 8 }
[tensors.y]
dtype = "f32"
shape = ["M", "8"]
role = "out"
[tensors.x]
dtype = "f32"
shape = ["M"]
[reference]
formula = "y[i, j] = 0 * x[i]"
*/
__global__ void k(const float* x, float* y) {
  int lane = threadIdx.x;
  float d[4] = {0, 0, 0, 0};
  unsigned a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  int row = blockIdx.x * 16 + lane / 4;
  *reinterpret_cast<float2*>(y + row * 8 + lane % 4 * 2) = make_float2(d[0], d[1]);
  *reinterpret_cast<float2*>(y + (row + 8) * 8 + lane % 4 * 2) = make_float2(d[2], d[3]);
}
extern "C" void run(const float* x, float* y, int M, cudaStream_t stream) {
  k<<<(M + 15) / 16, 32, 0, stream>>>(x, y);
}
