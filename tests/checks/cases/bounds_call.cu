// A call through a pointer that is no function's.
// wrong: out-of-bounds here
// right:
typedef int (*Step)(int);
__device__ int twice(int v) { return 2 * v; }
__device__ int square(int v) { return v * v; }
__device__ Step steps[2] = {twice, square};
__global__ void apply(int* x, int which, long long shift) {
  const Step step = reinterpret_cast<Step>(reinterpret_cast<long long>(steps[which]) + shift);
  x[threadIdx.x] = step(x[threadIdx.x]);  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  apply<<<1, 32>>>(x, 1, wrong ? 4 : 0);
  if (wrong) {
    cudaDeviceSynchronize();
    return;
  }
  finish(x);
}
