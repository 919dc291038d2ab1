// violates: alignment
// Rows 40 bytes apart: every other row begins at 8 mod 16.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 10000 }
[tensors.x]
dtype = "i16"
shape = ["n", "256"]
[tensors.y]
dtype = "f32"
shape = ["n", "128"]
role = "out"
[reference]
formula = "y[i, e] = x[i, (floor(e / 32) % 2 * 8 + floor(e % 32 / 4)) * 16 + floor(e / 64) * 8 + e % 4 * 2]"
*/
__global__ void k(const short* x, float* y) {
  __shared__ __align__(16) short s[16][20];
  for (int e = threadIdx.x; e < 256; e += 32) s[e / 16][e % 16] = x[blockIdx.x * 256 + e];
  __syncthreads();
  unsigned a[4];
  unsigned at = __cvta_generic_to_shared(&s[threadIdx.x % 16][threadIdx.x / 16 * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at) : "memory");
  for (int j = 0; j < 4; ++j) y[blockIdx.x * 128 + j * 32 + threadIdx.x] = static_cast<short>(a[j] & 0xffff);
}
extern "C" void run(const short* x, float* y, int n, cudaStream_t stream) {
  k<<<n, 32, 0, stream>>>(x, y);
}
