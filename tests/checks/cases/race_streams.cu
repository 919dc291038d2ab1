// A kernel on one stream reads what a kernel on another writes.
// wrong: data-race here
// right:
__global__ void produce(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void consume(const int* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t ready;
  cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
  produce<<<1, 32, 0, a>>>(x);
  cudaEventRecord(ready, a);
  if (!wrong) cudaStreamWaitEvent(b, ready);
  consume<<<1, 32, 0, b>>>(x, y);
  cudaDeviceSynchronize();
  cudaEventDestroy(ready);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
}
// In the order of the wrong one the reader may run first; what it reads was set at allocation.
