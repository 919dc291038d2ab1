// A kernel that may start early clears a buffer that the kernel before it still reads; wrong: before it waits.
// wrong: data-race here
// right:
__global__ void sum(const int* x, int* total) {
  let_dependents_start();
  atomicAdd(total, x[threadIdx.x]);
}
__global__ void clear(int* x, bool waits) {
  if (waits) wait_for_grid();
  x[threadIdx.x] = -1;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *total = device_array(1);
  sum<<<1, 64>>>(x, total);
  launch_early(clear, 1, 64, nullptr, x, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(total);
}
