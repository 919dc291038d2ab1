// The threads that are together in a branch elect one of themselves; their sync orders them, not the others.
// wrong: data-race
// right:
__global__ void gather(const int* x, int* y, bool others) {
  namespace cg = cooperative_groups;
  __shared__ int s[32];
  const int t = threadIdx.x;
  s[t] = -1;
  __syncwarp();
  if (t % 3) {
    auto group = cg::coalesced_threads();
    s[t] = group.thread_rank();
    group.sync();
    y[t] = s[t % 3 == 1 && t < 31 ? t + 1 : t % 3 == 2 ? t - 1 : t];
    auto part = cg::labeled_partition(group, t % 2);
    y[32 + t] = part.size() + part.shfl(t, 0);
  } else {
    s[t] = t;
    if (others && t > 1) y[t] = s[t - 1];
  }
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(64);
  gather<<<1, 32>>>(x, y, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
