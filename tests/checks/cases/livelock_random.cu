// Turns of random length end anywhere in a loop that polls; that nobody gets anywhere shows all the same.
// seed: 1
// wrong: deadlock
// right:
__global__ void pass_along(volatile int* flags, int* x, int last) {
  if (threadIdx.x % 32 == 0) {
    const int own = blockIdx.x * 2 + threadIdx.x / 32;
    while (own > 0 && flags[own - 1] == 0) {
    }
    __threadfence();
    if (own != last) flags[own] = 1;
  }
  __syncwarp();
  x[blockIdx.x * 64 + threadIdx.x] = 1;
}
void run(bool wrong) {
  int *x = device_array(256), *flags = device_array(8);
  pass_along<<<4, 64>>>(flags, x, wrong ? 3 : -1);
  if (cudaDeviceSynchronize() != cudaSuccess) return;
  cudaFree(flags);
  cudaFree(x);
}
