// Lanes that share one atomic (warp aggregation); wrong: a plain increment by the leader.
// wrong: data-race here
// right:
__global__ void filter(const int* x, int* y, int* count, bool plain) {
  const int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  if ((threadIdx.x & 3) != 0) return;
  const unsigned mask = __activemask();
  const int leader = __ffs(mask) - 1, lane = threadIdx.x & 31;
  int at = 0;
  if (lane == leader) {
    if (plain)
      at = *count, *count = at + __popc(mask);  // here
    else
      at = atomicAdd(count, __popc(mask));
  }
  at = __shfl_sync(mask, at, leader) + __popc(mask & ((1u << lane) - 1));
  if (!plain) y[at] = v;
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(128), *count = device_array(1);
  filter<<<2, 64>>>(x, y, count, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
  cudaFree(count);
}
