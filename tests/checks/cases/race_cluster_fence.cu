// A flag in another block's shared memory, behind a fence of the cluster or of the block.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) hand_over(int* y, bool wide) {
  namespace cg = cooperative_groups;
  __shared__ int data, ready;
  const auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) data = ready = 0;
  cluster.sync();
  if (cluster.block_rank() == 1 && threadIdx.x == 0) {
    *cluster.map_shared_rank(&data, 0) = 42;
    if (wide)
      asm volatile("fence.acq_rel.cluster;" ::: "memory");
    else
      asm volatile("fence.acq_rel.cta;" ::: "memory");
    atomicExch(cluster.map_shared_rank(&ready, 0), 1);
  }
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    while (atomicAdd(&ready, 0) == 0) {
    }
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    y[blockIdx.x] = data;  // here
  }
  cluster.sync();
}
void run(bool wrong) {
  int* y = device_array(4);
  hand_over<<<4, 32>>>(y, !wrong);
  finish(y);
}
