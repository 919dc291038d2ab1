// violates: bounds
// The counter passes 2^31 before the loop ends.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 2147483647 }
[tensors.x]
dtype = "i8"
shape = ["n"]
[tensors.y]
dtype = "i8"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
*/
__global__ void k(const signed char* x, signed char* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 262144) y[i] = x[i];
}
extern "C" void run(const signed char* x, signed char* y, int n, cudaStream_t stream) {
  k<<<1024, 256, 0, stream>>>(x, y, n);
}
