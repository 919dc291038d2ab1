// A row of threads initialises one mbarrier: all with the same count, or each with its own.
// wrong: data-race here
// right:
__global__ void begin(int* x, bool same) {
  __shared__ unsigned long long barrier;
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const unsigned count = same ? 64 : 64 + threadIdx.y;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");  // here
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) *x = 1;
}
void run(bool wrong) {
  int* x = device_array(1);
  begin<<<1, dim3(16, 4)>>>(x, !wrong);
  finish(x);
}
