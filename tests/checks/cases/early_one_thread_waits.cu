// One thread of a block waits for the kernel before; wrong: the others do not wait for that thread.
// wrong: data-race here
// right:
__global__ void make(int* x) {
  x[threadIdx.x] = threadIdx.x + 1;
  let_dependents_start();
}
__global__ void use(const int* x, int* y, bool barrier) {
  if (threadIdx.x == 0) wait_for_grid();
  if (barrier) __syncthreads();
  y[threadIdx.x] = x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(128);
  make<<<1, 128>>>(x);
  launch_early(use, 1, 128, nullptr, x, y, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
