// A block reads what the others have in shared memory, after a barrier of the cluster or of itself.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(4, 1, 1) pull(int* y, bool sync) {
  namespace cg = cooperative_groups;
  __shared__ int s[64];
  const auto cluster = cg::this_cluster();
  s[threadIdx.x] = 0;
  cluster.sync();
  s[threadIdx.x] = blockIdx.x + threadIdx.x;
  __syncthreads();
  if (sync) cluster.sync();
  int sum = 0;
  for (int r = 0; r < 4; ++r) sum += cluster.map_shared_rank(s, r)[63 - threadIdx.x];  // here
  y[blockIdx.x * 64 + threadIdx.x] = sum;
  cluster.sync();
}
void run(bool wrong) {
  int* y = device_array(512);
  pull<<<8, 64>>>(y, !wrong);
  finish(y);
}
