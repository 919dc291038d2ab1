// Shared memory of the threads that load nothing.
// wrong: uninitialized here
// right:
__global__ void sum(const int* x, int* y, int n, bool zero) {
  __shared__ int s[64];
  if (threadIdx.x < n)
    s[threadIdx.x] = x[threadIdx.x];
  else if (zero)
    s[threadIdx.x] = 0;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x] + s[threadIdx.x ^ 32];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  sum<<<1, 64>>>(x, y, 40, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
