// A bulk copy out of shared memory still reads it while the next tile is written there.
// wrong: data-race
// right:
__global__ void stream(int* y, int tiles, bool wait) {
  __shared__ alignas(16) int s[128];
  const int t = threadIdx.x;
  for (int i = 0; i < tiles; ++i) {
    s[t] = i + t;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(y + i * 128), "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      if (wait) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
  }
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
void run(bool wrong) {
  int* y = device_array(128 * 4);
  stream<<<1, 128>>>(y, 4, !wrong);
  finish(y);
}
