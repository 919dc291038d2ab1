// The host looks at what an asynchronous copy is to bring, without waiting for it.
// wrong: unwaited-work,leak
// right:
void run(bool wrong) {
  int *x = device_array(64), *host;
  cudaMallocHost(&host, 256);
  cudaStream_t a;
  cudaStreamCreate(&a);
  cudaMemcpyAsync(host, x, 256, cudaMemcpyDeviceToHost, a);
  if (wrong) return;
  cudaStreamSynchronize(a);
  if (host[0] != 0) abort();
  cudaStreamDestroy(a);
  cudaFreeHost(host);
  cudaFree(x);
}
