// The fence between the proxies stands before the write instead of after it.
// wrong: data-race here
// right:
__global__ void store(int* y, bool too_soon) {
  __shared__ alignas(16) int s[64];
  if (too_soon) asm volatile("fence.proxy.async;" ::: "memory");
  s[threadIdx.x] = threadIdx.x;
  if (!too_soon) asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(y), "r"(shared(s)) : "memory");  // here
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
  }
}
void run(bool wrong) {
  int* y = device_array(64);
  store<<<1, 64>>>(y, wrong);
  finish(y);
}
