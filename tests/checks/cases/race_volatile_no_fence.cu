// A block hands a datum to another one through a flag, both volatile; wrong: no fence between the two writes.
// wrong: data-race here
// right:
__global__ void hand_over(volatile int* data, volatile int* flag, int* y, bool fence) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    *data = 42;
    if (fence) __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    if (fence) __threadfence();
    *y = *data;  // here
  }
}
void run(bool wrong) {
  int *data = device_array(1), *flag = device_array(1), *y = device_array(1);
  hand_over<<<2, 32>>>(data, flag, y, !wrong);
  cudaDeviceSynchronize();
  cudaFree(data);
  cudaFree(flag);
  cudaFree(y);
}
