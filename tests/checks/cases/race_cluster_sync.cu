// Two blocks of a cluster exchange through global memory, with a cluster barrier between or without.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) swap(int* x, int* y, bool sync) {
  x[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
  if (sync)
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  y[blockIdx.x * 32 + threadIdx.x] = x[(blockIdx.x ^ 1) * 32 + threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(128);
  swap<<<4, 32>>>(x, y, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
