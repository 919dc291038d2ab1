// Blocks read each other's results after a barrier of the whole grid, or of the block only.
// wrong: data-race here
// right:
__global__ void rotate(int* x, int* y, bool grid) {
  x[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
  if (grid)
    cooperative_groups::this_grid().sync();
  else
    __syncthreads();
  y[blockIdx.x * 32 + threadIdx.x] = x[(blockIdx.x * 32 + threadIdx.x + 32) % 128];  // here
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(128);
  bool grid = !wrong;
  void* arguments[] = {&x, &y, &grid};
  cudaLaunchCooperativeKernel(reinterpret_cast<void*>(rotate), 4, 32, arguments, 0, 0);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
