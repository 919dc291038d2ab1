// Two kernels of one stream read an array; another stream overwrites a part of it once the first has ended: what the second
// reads, or what only the first did.
// wrong: data-race
// right:
__global__ void sum(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }
__global__ void overwrite(int* x) { x[threadIdx.x] = 1; }
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(64);
  cudaStream_t a, b;
  cudaEvent_t first;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&first);
  sum<<<1, 64, 0, a>>>(x, y);
  cudaEventRecord(first, a);
  sum<<<1, 32, 0, a>>>(x, y);
  cudaStreamWaitEvent(b, first, 0);
  overwrite<<<1, 32, 0, b>>>(wrong ? x : x + 32);
  cudaDeviceSynchronize();
  cudaEventDestroy(first);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
}
