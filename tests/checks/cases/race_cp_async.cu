// Two buffers filled by cp.async: the wait for the group in use is missing.
// wrong: data-race,uninitialized here
// right:
__device__ void fetch(int* to, const int* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__global__ void stream(const int* x, int* y, int tiles, bool wait) {
  __shared__ int s[2][64];
  const int t = threadIdx.x;
  fetch(&s[0][t], x + t);
  for (int i = 0; i < tiles; ++i) {
    if (i + 1 < tiles) fetch(&s[(i + 1) & 1][t], x + (i + 1) * 64 + t);
    if (wait) {
      if (i + 1 < tiles)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
      else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    y[i * 64 + t] = s[i & 1][63 - t];  // here
    __syncthreads();
  }
}
void run(bool wrong) {
  int *x = device_array(256), *y = device_array(256);
  stream<<<1, 64>>>(x, y, 4, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
