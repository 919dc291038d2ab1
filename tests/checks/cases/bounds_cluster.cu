// One element past the end of another block's shared memory.
// wrong: out-of-bounds here
// right:
__global__ void __cluster_dims__(2, 1, 1) peek(int* y, int past) {
  namespace cg = cooperative_groups;
  __shared__ int s[32];
  const auto cluster = cg::this_cluster();
  s[threadIdx.x] = threadIdx.x;
  cluster.sync();
  y[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x + past];  // here
  cluster.sync();
}
void run(bool wrong) {
  int* y = device_array(64);
  peek<<<2, 32>>>(y, wrong);
  finish(y);
}
