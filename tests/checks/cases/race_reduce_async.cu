// All blocks of a cluster add to each other's counters; an mbarrier counts what has arrived.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(4, 1, 1) add_up(int* y, bool wait) {
  __shared__ unsigned sums[32];
  __shared__ unsigned long long barrier;
  sums[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    init_barrier(shared(&barrier), 1);
    arrive_expecting(shared(&barrier), 4 * 32 * 4);
  }
  cluster_sync();
  for (unsigned r = 0; r < 4; ++r)
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(in_block(shared(&sums[threadIdx.x]), r)), "r"(r + 1), "r"(in_block(shared(&barrier), r)) : "memory");
  if (wait) wait_for(shared(&barrier), 0);
  y[blockIdx.x * 32 + threadIdx.x] = sums[threadIdx.x];  // here
  cluster_sync();
}
void run(bool wrong) {
  int* y = device_array(256);
  add_up<<<8, 32>>>(y, !wrong);
  finish(y);
}
