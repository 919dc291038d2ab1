// A flag between blocks, behind a fence that reaches no further than the block.
// wrong: data-race here
// right:
__global__ void hand_over(int* x, volatile int* flag, int* y, bool narrow) {
  if (blockIdx.x == 0) {
    *x = 7;
    if (narrow)
      __threadfence_block();
    else
      __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    __threadfence();
    *y = *x;  // here
  }
}
void run(bool wrong) {
  int *x = device_array(1), *flag = device_array(1), *y = device_array(1);
  hand_over<<<2, 1>>>(x, flag, y, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(flag);
  cudaFree(y);
}
