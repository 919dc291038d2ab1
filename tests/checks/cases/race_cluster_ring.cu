// Blocks hand values around a ring, in two buffers or in one.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(4, 1, 1) ring(int* y, int buffers) {
  namespace cg = cooperative_groups;
  __shared__ int s[2][32];
  const auto cluster = cg::this_cluster();
  s[0][threadIdx.x] = blockIdx.x * 32 + threadIdx.x;
  cluster.sync();
  for (int k = 0; k < 5; ++k) {
    const int v = s[k % buffers][threadIdx.x];
    cluster.map_shared_rank(s[(k + 1) % buffers], (cluster.block_rank() + 1) % 4)[threadIdx.x] = v + 1;  // here
    cluster.sync();
  }
  y[blockIdx.x * 32 + threadIdx.x] = s[5 % buffers][threadIdx.x];
}
void run(bool wrong) {
  int* y = device_array(256);
  ring<<<8, 32>>>(y, wrong ? 1 : 2);
  finish(y);
}
