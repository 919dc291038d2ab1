// The same where the first kernel never says that others may start: its results may still be on their way.
// wrong: data-race here
// right:
__global__ void make(int* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x + 1;
}
__global__ void use(const int* x, int* y, bool waits) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (waits) wait_for_grid();
  y[i] = 2 * x[255 - i];  // here
}
void run(bool wrong) {
  int *x = device_array(256), *y = device_array(256);
  make<<<4, 64>>>(x);
  launch_early(use, 4, 64, nullptr, x, y, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
