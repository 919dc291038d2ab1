// A kernel that only reads an array, and one on another stream that overwrites it, with an event between them or without.
// wrong: data-race here
// right:
__global__ void sum(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x + 32]; }
__global__ void overwrite(int* x) {
  x[threadIdx.x + 16] = 1;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  cudaStream_t a, b;
  cudaEvent_t done;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&done);
  if (wrong) cudaEventRecord(done, a);
  sum<<<1, 32, 0, a>>>(x, y);
  if (!wrong) cudaEventRecord(done, a);
  cudaStreamWaitEvent(b, done, 0);
  overwrite<<<1, 32, 0, b>>>(x);
  cudaDeviceSynchronize();
  cudaEventDestroy(done);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
}
