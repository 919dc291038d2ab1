// A chain of blocks, each waiting for the flag of the one before (decoupled look-back).
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
  int *sums = device_array(64), *flags = device_array(64);
  scan<<<16, 1>>>(sums, flags, !wrong);
  cudaDeviceSynchronize();
  cudaFree(sums);
  cudaFree(flags);
}
