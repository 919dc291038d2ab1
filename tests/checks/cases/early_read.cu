// A kernel that may start early reads what the kernel before it writes; wrong: it does not wait.
// wrong: data-race here
// right:
// shows: may start before the previous one has ended
__global__ void make(int* x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x + 1;
  let_dependents_start();
}
__global__ void use(const int* x, int* y, bool waits) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (waits) wait_for_grid();
  y[i] = 2 * x[i];  // here
}
void run(bool wrong) {
  int *x = device_array(256), *y = device_array(256);
  make<<<4, 64>>>(x);
  launch_early(use, 4, 64, nullptr, x, y, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
