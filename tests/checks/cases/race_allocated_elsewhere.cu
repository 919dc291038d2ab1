// Memory that one stream has asked for (cudaMallocAsync), used by another that does not wait for it.
// wrong: data-race
// right:
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void add(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }
void run(bool wrong) {
  cudaStream_t a, b;
  cudaEvent_t ready;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
  int *x, *y = device_array(64);
  cudaMallocAsync(&x, 64 * sizeof(int), a);
  fill<<<1, 64, 0, a>>>(x);
  cudaEventRecord(ready, a);
  if (!wrong) cudaStreamWaitEvent(b, ready, 0);
  add<<<1, 64, 0, b>>>(x, y);
  cudaEventRecord(ready, b);
  cudaStreamWaitEvent(a, ready, 0);
  cudaFreeAsync(x, a);
  cudaDeviceSynchronize();
  cudaEventDestroy(ready);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(y);
}
