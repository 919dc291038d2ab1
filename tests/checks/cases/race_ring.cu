// A warp that fetches and a warp that computes pass two buffers to and fro by full and empty mbarriers. A buffer must not
// be given back before it was read.
// wrong: data-race
// right:
__device__ void wait_for(unsigned at, unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "r"(parity) : "memory");
}
__device__ void arrive_at(unsigned at) { asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at) : "memory"); }
__global__ void ring(int* y, int rounds, bool early) {
  __shared__ int s[2][32];
  __shared__ unsigned long long full[2], empty[2];
  const int lane = threadIdx.x % 32;
  auto address = [](void* p) { return (unsigned)__cvta_generic_to_shared(p); };
  if (threadIdx.x == 0)
    for (int b = 0; b < 2; ++b) {
      asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(address(&full[b])) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(address(&empty[b])) : "memory");
    }
  __syncthreads();
  int sum = 0;
  for (int i = 0; i < rounds; ++i) {
    const int b = i % 2;
    const unsigned parity = i / 2 % 2;
    if (threadIdx.x < 32) {
      wait_for(address(&empty[b]), parity ^ 1);
      s[b][lane] = i + lane;
      arrive_at(address(&full[b]));
    } else {
      wait_for(address(&full[b]), parity);
      if (early) arrive_at(address(&empty[b]));
      sum += s[b][31 - lane];
      if (!early) arrive_at(address(&empty[b]));
    }
  }
  if (threadIdx.x >= 32) y[lane] = sum;
}
void run(bool wrong) {
  int* y = device_array(32);
  ring<<<1, 64>>>(y, 6, wrong);
  finish(y);
}
