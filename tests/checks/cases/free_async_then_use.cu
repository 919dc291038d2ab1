// Memory is given back in stream order, and used by a later kernel of the same stream.
// wrong: out-of-bounds
// right:
__global__ void add(int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }
void run(bool wrong) {
  int *y = device_array(32), *x = nullptr;
  cudaStream_t s;
  cudaStreamCreate(&s);
  cudaMallocAsync(&x, 32 * sizeof(int), s);
  cudaMemsetAsync(x, 0, 32 * sizeof(int), s);
  if (wrong) cudaFreeAsync(x, s);
  add<<<1, 32, 0, s>>>(x, y);
  if (!wrong) cudaFreeAsync(x, s);
  cudaStreamSynchronize(s);
  cudaGetLastError();
  cudaStreamDestroy(s);
  finish(y);
}
