// right
// Each thread has its own halves.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "i16"
shape = ["n"]
[tensors.y]
dtype = "i16"
shape = ["n"]
role = "inout"
[reference]
formula = "y[i] = x[i]"
*/
__global__ void k(const short* x, short* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  
  y[i] = x[i];
}
extern "C" void run(const short* x, short* y, int n, cudaStream_t stream) {
  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
