// An accumulator that is cleared by its count of elements, not of bytes.
// wrong: uninitialized here
// right:
__global__ void accumulate(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];  // here
}
void run(bool wrong) {
  int *x = device_array(100), *y;
  cudaMalloc(&y, 100 * sizeof(int));
  cudaMemset(y, 0, wrong ? 100 : 100 * sizeof(int));
  accumulate<<<2, 64>>>(x, y, 100);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
