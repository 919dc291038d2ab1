// A block may not end while others still read its shared memory.
// wrong: out-of-bounds here
// right:
__global__ void __cluster_dims__(2, 1, 1) peek(int* y, bool stay) {
  namespace cg = cooperative_groups;
  __shared__ int s[32];
  const auto cluster = cg::this_cluster();
  s[threadIdx.x] = threadIdx.x;
  cluster.sync();
  if (cluster.block_rank() == 0) y[threadIdx.x] = cluster.map_shared_rank(s, 1)[threadIdx.x];  // here
  if (!stay) return;
  cluster_arrive_relaxed();  // enough for that
  cluster_wait();
}
void run(bool wrong) {
  int* y = device_array(64);
  peek<<<2, 32>>>(y, !wrong);
  finish(y);
}
