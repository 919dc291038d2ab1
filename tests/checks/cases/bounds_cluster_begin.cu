// A block's shared memory is there once it has begun.
// wrong: out-of-bounds here
// right:
__global__ void __cluster_dims__(2, 1, 1) push(int* y, bool sync) {
  namespace cg = cooperative_groups;
  __shared__ int s[32];
  const auto cluster = cg::this_cluster();
  if (sync) cluster.sync();
  cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x] = threadIdx.x;  // here
  cluster.sync();
  y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
}
void run(bool wrong) {
  int* y = device_array(64);
  push<<<2, 32>>>(y, !wrong);
  finish(y);
}
