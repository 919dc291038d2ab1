// What older kernels of the stream wrote may be read at once: the kernel before had waited for them. Wrong: the partner
// of this kernel is the one that writes.
// wrong: data-race here
// right:
__global__ void make(int* x) {
  x[threadIdx.x] = threadIdx.x + 1;
  let_dependents_start();
}
__global__ void use(const int* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *other = device_array(64), *y = device_array(64);
  make<<<1, 64>>>(wrong ? other : x);
  make<<<1, 64>>>(wrong ? x : other);
  launch_early(use, 1, 64, nullptr, x, y);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(other);
  cudaFree(y);
}
