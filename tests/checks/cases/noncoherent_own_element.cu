// In place through `const __restrict__`: each thread reads its element and then writes it, or reads it once more after.
// wrong: data-race here
// right:
__global__ void scale(const int* __restrict__ x, int* y, bool again) {
  const int v = __ldg(x + threadIdx.x);
  y[threadIdx.x] = v * 2 + 1;
  if (!again) return;
  __threadfence();
  int w;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(w) : "l"(__cvta_generic_to_global(x + threadIdx.x)));  // here
  y[threadIdx.x + 64] = w;
}
void run(bool wrong) {
  int* x = device_array(128);
  scale<<<1, 64>>>(x, x, wrong);
  finish(x);
}
