// violates: bounds
// The index doubles from 2^30 to -2^31.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 2, max = 2147483647 }
[tensors.x]
dtype = "i8"
shape = ["n"]
[tensors.y]
dtype = "i32"
shape = ["1"]
role = "out"
[reference]
formula = "y[z] = i32(x[1])"
*/
__global__ void k(const signed char* x, int* y, int n) {
  int sum = 0;
  for (int i = 1; i < n; i *= 2) sum = max(sum, static_cast<int>(x[i]));
  y[0] = sum < -1000 ? 0 : x[1];
}
extern "C" void run(const signed char* x, int* y, int n, cudaStream_t stream) {
  k<<<1, 1, 0, stream>>>(x, y, n);
}
