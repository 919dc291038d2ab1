// right
// Read before.
/* contract
[kernel]
source = "SOURCE"
entry = "run"
args = ["x", "idx", "z", "y", "n", "stream"]
[dims]
n = { min = 128, max = 128 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.idx]
dtype = "i32"
shape = ["n"]
values = "index(n)"
[tensors.z]
dtype = "i32"
shape = ["n"]
role = "out"
may_alias = "idx"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = """z[i] = idx[i] + 1000
y[i] = x[idx[i]]"""
*/
__global__ void k(const float* x, const int* idx, int* z, float* y) {
  int t = threadIdx.x;
  int first = idx[t];
  __syncthreads();
  z[t] = first + 1000;
  __syncthreads();
  y[t] = x[first];
}
extern "C" void run(const float* x, const int* idx, int* z, float* y, int n, cudaStream_t stream) {
  k<<<1, 128, 0, stream>>>(x, idx, z, y);
}
