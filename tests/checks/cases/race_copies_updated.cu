// Both warps of a block load an element, and the first updates it. In kernels compiled from tensors the second has a copy,
// whose value it does not use; an element that another thread needs is a race there, too.
// wrong: data-race here
// right:
__global__ void update(int* x, int shift) {
  asm volatile(".pragma \"assay_threads_hold_copies\";");
  const unsigned lane = threadIdx.x % 32;
  int *const from = x + lane + shift, *to = x + lane;
  int value;
  if (shift) {
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    if (threadIdx.x < 32) asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(value + 1) : "memory");  // here
  } else {
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(to) : "memory");
    if (threadIdx.x < 32) asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(value + 1) : "memory");
  }
}
void run(bool wrong) {
  int* x = device_array(64);
  update<<<1, 64>>>(x, wrong ? 1 : 0);
  cudaDeviceSynchronize();
  cudaFree(x);
}
