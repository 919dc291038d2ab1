// The host fills a staging buffer again while the copy from it is under way; two buffers in turn are right.
// wrong: data-race
// right:
void run(bool wrong) {
  const int n = 2000;  // the halves share a page
  int *d = device_array(2 * n), *h = nullptr;
  cudaMallocHost(&h, 2 * n * sizeof(int));
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaEvent_t copied[2];
  for (auto& event : copied) cudaEventCreate(&event);
  for (int step = 0; step < 4; ++step) {
    int* half = h + (wrong ? 0 : step % 2 * n);
    if (!wrong && step >= 2) cudaEventSynchronize(copied[step % 2]);
    for (int i = 0; i < n; ++i) half[i] = step + i;
    cudaMemcpyAsync(d + step % 2 * n, half, n * sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaEventRecord(copied[step % 2], stream);
  }
  cudaStreamSynchronize(stream);
  for (auto& event : copied) cudaEventDestroy(event);
  cudaStreamDestroy(stream);
  cudaFreeHost(h);
  finish(d);
}
