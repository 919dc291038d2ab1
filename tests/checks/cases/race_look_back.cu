// A chain of blocks, each waiting for the flag of the one before (decoupled look-back). With several threads of the engine
// a flag may be set between asking for it and reading it.
// threads: 4
// wrong: data-race here
// right:
__global__ void scan(int* sums, volatile int* flags, bool fence) {
  const int b = blockIdx.x;
  int before = 0;
  if (b > 0) {
    while (flags[b - 1] == 0) {
    }
    __threadfence();
    before = sums[b - 1];  // here
  }
  sums[b] = before + b;
  if (fence) __threadfence();
  flags[b] = 1;
}
void run(bool wrong) {
  int *sums = device_array(256), *flags = device_array(256);
  for (int i = 0; i < (wrong ? 1 : 3); ++i) {
    cudaMemset(flags, 0, 256 * sizeof(int));
    scan<<<256, 1>>>(sums, flags, !wrong);
  }
  cudaDeviceSynchronize();
  cudaFree(sums);
  cudaFree(flags);
}
