// The last warp of the block is not full: a reduction by shuffles adds lanes that are not there.
// wrong: barrier-divergence
// right:
__global__ void sum(int* x, bool wrong) {
  int v = threadIdx.x;
  if (threadIdx.x < 32 || wrong) {
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
  } else {
    for (int d = 8; d; d /= 2) v += __shfl_down_sync(0xffff, v, d, 16);
  }
  if (threadIdx.x % 32 == 0) x[threadIdx.x / 32] = v;
}
void run(bool wrong) {
  int* x = device_array(2);
  sum<<<1, 48>>>(x, wrong);
  finish(x);
}
