// A sum in shared memory that nobody set to zero.
// wrong: uninitialized
// right:
__global__ void total(const int* x, int* y, int n, bool zero) {
  __shared__ int sum;
  if (zero && threadIdx.x == 0) sum = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&sum, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
void run(bool wrong) {
  int *x = device_array(100), *y = device_array(4);
  total<<<4, 64>>>(x, y, 100, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
