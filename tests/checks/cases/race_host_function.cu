// The host fills a pinned buffer in stream order (cudaLaunchHostFunc); done in place it is out of order.
// wrong: data-race
// right:
__global__ void add(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }
void CUDART_CB fill(void* p) {
  for (int i = 0; i < 64; ++i) static_cast<int*>(p)[i] = i;
}
void run(bool wrong) {
  int *host, *x = device_array(64), *y = device_array(64);
  cudaMallocHost(&host, 64 * sizeof(int));
  fill(host);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  for (int i = 0; i < 2; ++i) {
    cudaMemcpyAsync(x, host, 64 * sizeof(int), cudaMemcpyHostToDevice, stream);
    add<<<1, 64, 0, stream>>>(x, y);
    if (wrong)
      fill(host);
    else
      cudaLaunchHostFunc(stream, fill, host);
  }
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  cudaFreeHost(host);
  cudaFree(x);
  cudaFree(y);
}
