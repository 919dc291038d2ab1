// right
// An index that another lane has loaded, if it has.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "index", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.index]
dtype = "i32"
shape = ["n"]
values = "index(n)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[index[i]]"
*/
__global__ void kernel(const float* x, const int* index, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int own = i < n ? index[i] : -1;
  for (int lane = 0; lane < 32; ++lane) {
    const int theirs = __shfl_sync(0xffffffffu, own, lane);
    if (theirs >= 0 && threadIdx.x % 32 == lane) y[i] = x[theirs];
  }
}
extern "C" void run(const float* x, const int* index, float* y, int n, cudaStream_t stream) {
  kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, index, y, n);
}
