// Bins spread over the shared memory of a cluster: everybody's are cleared before anybody counts, or only one's own.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) count(const int* x, int* bins_out, bool everybody) {
  namespace cg = cooperative_groups;
  __shared__ int bins[32];
  const auto cluster = cg::this_cluster();
  cluster_sync();
  if (threadIdx.x < 32) bins[threadIdx.x] = 0;  // here
  if (everybody)
    cluster.sync();
  else
    __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    const int bin = (x[i] + i) % 64;
    atomicAdd(cluster.map_shared_rank(bins, bin / 32) + bin % 32, 1);
  }
  cluster.sync();
  if (threadIdx.x < 32) atomicAdd(&bins_out[cluster.block_rank() * 32 + threadIdx.x], bins[threadIdx.x]);
}
void run(bool wrong) {
  int *x = device_array(256), *bins = device_array(64);
  count<<<4, 64>>>(x, bins, !wrong);
  finish(x);
  cudaFree(bins);
}
