// Two warps wait at different named barriers for each other.
// wrong: deadlock here
// right:
__global__ void meet(int* x, int other) {
  if (threadIdx.x < 32)
    asm volatile("barrier.cta.sync 1, 64;" ::: "memory");  // here
  else
    asm volatile("barrier.cta.sync %0, 64;" ::"r"(other) : "memory");
  x[threadIdx.x] = 1;
}
void run(bool wrong) {
  int* x = device_array(64);
  meet<<<1, 64>>>(x, wrong ? 2 : 1);
  if (cudaDeviceSynchronize() != cudaSuccess) return;
  cudaFree(x);
}
