// The input of a kernel is filled anew on another stream: the part that the kernel read, or the rest.
// wrong: data-race here
// right:
__global__ void twice(const int* x, int* y) {
  y[threadIdx.x] = 2 * x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  twice<<<1, 32, 0, a>>>(x, y);
  cudaMemsetAsync(x + (wrong ? 31 : 32), 1, 4, b);
  cudaDeviceSynchronize();
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
}
