// Partial sums go to the first block. An arrival that is relaxed orders nothing, unless a fence comes before it.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) gather(int* y, bool fence) {
  __shared__ int part[2][64];
  part[0][threadIdx.x] = part[1][threadIdx.x] = 0;
  cluster_sync();
  const unsigned to = in_block(shared(&part[block_rank()][threadIdx.x]), 0);
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(threadIdx.x + 1) : "memory");
  if (fence) asm volatile("fence.acq_rel.cluster;" ::: "memory");
  cluster_arrive_relaxed();
  cluster_wait();
  if (block_rank() == 0) y[blockIdx.x * 32 + threadIdx.x] = part[0][63 - threadIdx.x] + part[1][threadIdx.x];  // here
  cluster_sync();
}
void run(bool wrong) {
  int* y = device_array(256);
  gather<<<4, 64>>>(y, !wrong);
  finish(y);
}
