// To wait for an event that was never recorded is not to wait at all.
// wrong: data-race
// right:
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void twice(const int* x, int* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  cudaStream_t a, b;
  cudaEvent_t done, filled;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&done);
  cudaEventCreate(&filled);
  fill<<<1, 64, 0, a>>>(x);
  cudaEventRecord(wrong ? done : filled, a);
  cudaStreamWaitEvent(b, filled, 0);
  twice<<<1, 64, 0, b>>>(x, y);
  cudaDeviceSynchronize();
  cudaEventDestroy(done);
  cudaEventDestroy(filled);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
}
