// Only a kernel is overlapped: after a copy, or when the host has waited, a kernel that may start early needs no wait.
// wrong: data-race here
// right:
__global__ void make(int* x) {
  x[threadIdx.x] = threadIdx.x + 1;
}
__global__ void use(const int* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64), *z = device_array(64);
  make<<<1, 64>>>(x);
  if (!wrong) cudaMemcpyAsync(z, x, 64 * sizeof(int), cudaMemcpyDeviceToDevice);
  launch_early(use, 1, 64, nullptr, x, y);
  cudaDeviceSynchronize();
  make<<<1, 64>>>(x);
  cudaDeviceSynchronize();
  launch_early(use, 1, 64, nullptr, x, y);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
  cudaFree(z);
}
