// Three kernels, the last two of which may start early; wrong: the last one does not wait and reads what the first wrote.
// wrong: data-race here
// right:
__global__ void first(int* x) {
  x[threadIdx.x] = threadIdx.x;
  let_dependents_start();
}
__global__ void second(const int* w, int* y) {
  y[threadIdx.x] = w[threadIdx.x] + 1;
  let_dependents_start();
}
__global__ void third(const int* x, int* z, bool waits) {
  if (waits) wait_for_grid();
  z[threadIdx.x] = x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *w = device_array(64), *x = device_array(64), *y = device_array(64), *z = device_array(64);
  first<<<1, 64>>>(x);
  launch_early(second, 1, 64, nullptr, w, y);
  launch_early(third, 1, 64, nullptr, x, z, !wrong);
  cudaDeviceSynchronize();
  cudaFree(w);
  cudaFree(x);
  cudaFree(y);
  cudaFree(z);
}
