// Streams ordered by an event, or by one that was recorded too early.
// wrong: data-race here
// right:
__global__ void produce(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void consume(const int* x, int* y) {
  y[threadIdx.x] = x[threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  cudaStream_t a, b;
  cudaEvent_t done;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&done);
  if (wrong) cudaEventRecord(done, a);
  produce<<<1, 32, 0, a>>>(x);
  if (!wrong) cudaEventRecord(done, a);
  cudaStreamWaitEvent(b, done, 0);
  consume<<<1, 32, 0, b>>>(x, y);
  cudaDeviceSynchronize();
  cudaEventDestroy(done);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
}
