// Device memory that nothing wrote reaches a result.
// wrong: uninitialized here
// right:
__global__ void copy(const int* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x] + 1;  // here
}
void run(bool wrong) {
  int *x, *y = device_array(64);
  cudaMalloc(&x, 256);
  if (!wrong) cudaMemset(x, 0, 256);
  copy<<<1, 32>>>(x, y);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
