// One warp waits for another at an mbarrier, or does not.
// wrong: data-race here
// right:
__global__ void hand_over(int* x, bool wait) {
  __shared__ int s[32];
  __shared__ unsigned long long barrier;
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at) : "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] = threadIdx.x;
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at) : "memory");
  } else {
    unsigned done = !wait;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    x[threadIdx.x & 31] = s[threadIdx.x & 31];  // here
  }
}
void run(bool wrong) {
  int* x = device_array(64);
  hand_over<<<1, 64>>>(x, !wrong);
  finish(x);
}
// The reader comes first.
// wrong: uninitialized
