// Another block's shared memory, of which half was written.
// wrong: uninitialized here
// right:
__global__ void __cluster_dims__(2, 1, 1) peek(int* y, int written) {
  namespace cg = cooperative_groups;
  __shared__ int s[32];
  const auto cluster = cg::this_cluster();
  if (threadIdx.x < written) s[threadIdx.x] = threadIdx.x;
  cluster.sync();
  y[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x];  // here
  cluster.sync();
}
void run(bool wrong) {
  int* y = device_array(64);
  peek<<<2, 32>>>(y, wrong ? 16 : 32);
  finish(y);
}
