// Each block fetches half of a tile for both. Before it fetches the next, both blocks' readers must be done, not
// only its own.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) stream(const int* x, int* y, bool both) {
  __shared__ alignas(128) int tile[2][2][32];
  __shared__ unsigned long long full[2], empty[2];
  const unsigned rank = block_rank();
  for (int s = 0; s < 2 && threadIdx.x == 0; ++s) {
    init_barrier(shared(&full[s]), 1);
    init_barrier(shared(&empty[s]), 2);
  }
  cluster_sync();
  int sum = 0;
  for (int k = 0; k < 6; ++k) {
    const int s = k % 2, round = k / 2 % 2;
    if (threadIdx.x == 32) {
      wait_for(shared(&empty[s]), round ^ 1);
      arrive_expecting(shared(&full[s]), 256);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 128, [%2], %3;" ::"r"(shared(tile[s][rank])), "l"(x + k * 64 + rank * 32), "r"(shared(&full[s])), "h"(static_cast<unsigned short>(3)) : "memory");  // here
    }
    if (threadIdx.x >= 32) continue;
    wait_for(shared(&full[s]), round);
    sum += tile[s][0][threadIdx.x] + tile[s][1][threadIdx.x];
    __syncwarp();
    if (threadIdx.x < 2) arrive_in(shared(&empty[s]), both ? threadIdx.x : rank);
  }
  if (threadIdx.x < 32) y[blockIdx.x * 32 + threadIdx.x] = sum;
  __syncwarp();
  cluster_sync();
}
void run(bool wrong) {
  int *x = device_array(384), *y = device_array(128);
  stream<<<4, 64>>>(x, y, !wrong);
  finish(x);
  cudaFree(y);
}
