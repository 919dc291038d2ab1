// The host reads pinned memory while an asynchronous copy to it is under way.
// wrong: data-race
// right:
void run(bool wrong) {
  int *d = device_array(4096), *h = nullptr;
  cudaMallocHost(&h, 4096 * sizeof(int));
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaEvent_t done;
  cudaEventCreate(&done);
  cudaMemcpyAsync(h, d, 4096 * sizeof(int), cudaMemcpyDeviceToHost, stream);
  cudaEventRecord(done, stream);
  if (!wrong)
    while (cudaEventQuery(done) == cudaErrorNotReady) {
    }
  volatile int value = h[1000];
  (void)value;
  cudaStreamSynchronize(stream);
  cudaEventDestroy(done);
  cudaStreamDestroy(stream);
  cudaFreeHost(h);
  finish(d);
}
