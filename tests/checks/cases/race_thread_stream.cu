// The stream of the thread waits for the default stream and is waited for; a stream that does not block is not.
// wrong: data-race
// right:
__global__ void fill(int* x, int v) { x[threadIdx.x] = v; }
__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
void run(bool wrong) {
  int* x = device_array(64);
  cudaStream_t other;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  fill<<<1, 64, 0, cudaStreamPerThread>>>(x, 1);
  twice<<<1, 64, 0, wrong ? other : cudaStreamLegacy>>>(x);
  cudaDeviceSynchronize();
  cudaStreamDestroy(other);
  cudaFree(x);
}
