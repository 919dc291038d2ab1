// right
// The slices begin at multiples of four.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 4, max = 1000000, multiple_of = 4 }
[tensors.x]
dtype = "i8"
shape = ["n"]
align = 4
[tensors.y]
dtype = "i8"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
*/
__global__ void k(const char4* x, char4* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" void run(const signed char* x, signed char* y, int n, cudaStream_t stream) {
  k<<<(n / 4 + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const char4*>(x), reinterpret_cast<char4*>(y), n / 4);
}
