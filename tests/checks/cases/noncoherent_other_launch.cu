// Written by one launch and read through the read-only cache by the next is right; all in one launch is not.
// wrong: data-race
// right:
__global__ void fill(int* x) { x[blockIdx.x * 64 + threadIdx.x] = threadIdx.x; }
__global__ void add(const int* x, int* y) { y[threadIdx.x] += __ldg(x + blockIdx.x * 64 + threadIdx.x); }
__global__ void both(int* x, int* y) {
  x[threadIdx.x] = threadIdx.x;
  __threadfence();
  int v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(x + threadIdx.x)));
  y[threadIdx.x] = v;
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  if (wrong) {
    both<<<1, 64>>>(x, y);
  } else {
    fill<<<1, 64>>>(x);
    add<<<1, 64>>>(x, y);
  }
  finish(x);
  cudaFree(y);
}
