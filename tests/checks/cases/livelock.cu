// A block waits for a flag that nobody sets. With a seed turns end anywhere in its loop, and that must not count as
// getting somewhere.
// seed: 1
// wrong: deadlock here
// right:
__global__ void wait(volatile int* flag, int* x, bool set) {
  if (blockIdx.x == 0) {
    while (*flag == 0) {  // here
    }
    x[0] = 1;
  } else if (set && threadIdx.x == 0) {
    *flag = 1;
  }
}
void run(bool wrong) {
  int *x = device_array(64), *flag = device_array(1);
  wait<<<2, 32>>>(flag, x, !wrong);
  if (cudaDeviceSynchronize() != cudaSuccess) return;
  cudaFree(flag);
  cudaFree(x);
}
