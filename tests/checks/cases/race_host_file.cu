// A file is read into pinned memory that a copy still reads from; into the other half of it is all right.
// wrong: data-race
// right:
void run(bool wrong) {
  constexpr size_t kBytes = 1 << 16;
  char *pinned = nullptr, *there = nullptr;
  cudaMallocHost(&pinned, 2 * kBytes);
  cudaMalloc(&there, kBytes);
  memset(pinned, 1, 2 * kBytes);
  FILE* file = fopen("/proc/self/exe", "rb");
  cudaMemcpyAsync(there, pinned, kBytes, cudaMemcpyHostToDevice);
  const size_t got = fread(wrong ? pinned : pinned + kBytes, 1, kBytes, file);
  cudaDeviceSynchronize();
  if (got != kBytes) abort();
  fclose(file);
  cudaFree(there);
  cudaFreeHost(pinned);
}
