// Words beside those that are written, in the same line of the cache, are read again and again; that is right, and the
// written ones are not.
// wrong: data-race here
// right:
__global__ void sum(int* x, int* y, int from) {
  int s = 0;
  for (int k = 0; k < 4; ++k) {
    x[32 + threadIdx.x] = k;
    int v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(x + from + threadIdx.x)));  // here
    s += v;
  }
  y[threadIdx.x] = s;
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(32);
  sum<<<1, 16>>>(x, y, wrong ? 32 : 16);
  finish(x);
  cudaFree(y);
}
