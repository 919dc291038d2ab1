// The event is recorded before the kernel that it should stand for.
// wrong: data-race
// right:
__global__ void produce(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void consume(const int* x, int* y) { y[threadIdx.x] = x[31 - threadIdx.x]; }
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEvent_t ready;
  cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
  if (wrong) cudaEventRecord(ready, a);
  produce<<<1, 32, 0, a>>>(x);
  if (!wrong) cudaEventRecord(ready, a);
  cudaStreamWaitEvent(b, ready, 0);
  consume<<<1, 32, 0, b>>>(x, y);
  cudaDeviceSynchronize();
  cudaEventDestroy(ready);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(y);
  finish(x);
}
