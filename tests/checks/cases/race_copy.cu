// A copy of a result on a stream that does not wait for the kernel.
// wrong: data-race here
// right:
__global__ void produce(int* x) {
  x[threadIdx.x] = threadIdx.x;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *host;
  cudaMallocHost(&host, 256);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  produce<<<1, 32, 0, a>>>(x);
  cudaMemcpyAsync(host, x, 256, cudaMemcpyDeviceToHost, wrong ? b : a);
  cudaDeviceSynchronize();
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFreeHost(host);
  cudaFree(x);
}
