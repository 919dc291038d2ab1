// Stores into another block's shared memory that an mbarrier counts: who reads them has waited, or met one that has.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) swap(int* y, bool meet) {
  __shared__ int in[64];
  __shared__ unsigned long long barrier;
  in[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    init_barrier(shared(&barrier), 1);
    arrive_expecting(shared(&barrier), 256);
  }
  cluster_sync();
  const unsigned other = block_rank() ^ 1;
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(in_block(shared(&in[threadIdx.x]), other)), "r"(threadIdx.x + 1), "r"(in_block(shared(&barrier), other)) : "memory");
  if (threadIdx.x < 32) wait_for(shared(&barrier), 0);
  if (meet) __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = in[63 - threadIdx.x];  // here
  cluster_sync();
}
void run(bool wrong) {
  int* y = device_array(256);
  swap<<<4, 64>>>(y, !wrong);
  finish(y);
}
