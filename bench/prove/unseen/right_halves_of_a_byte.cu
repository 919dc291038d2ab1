// right
// A thread writes a byte.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 2, max = 100000, multiple_of = 2 }
[tensors.x]
dtype = "u8"
shape = ["n"]
values = "integers(0, 15)"
[tensors.y]
dtype = "u8"
shape = ["n / 2"]
role = "inout"
[reference]
formula = "y[i] = bit_or(x[2 * i], shift_left(x[2 * i + 1], 4))"
*/
__global__ void k(const unsigned char* x, unsigned char* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 2) y[i] = x[2 * i] | x[2 * i + 1] << 4;
}
extern "C" void run(const unsigned char* x, unsigned char* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
