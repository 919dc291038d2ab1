// A volatile flag says that data of another block is there; a fence has to say it, too.
// wrong: data-race here
// right:
__global__ void pass_on(int* data, volatile int* flag, int* out, bool wrong) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = threadIdx.x + 1;  // here
    if (!wrong) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
  } else {
    if (threadIdx.x == 0)
      while (*flag == 0) {
      }
    __syncthreads();
    if (!wrong) __threadfence();
    out[threadIdx.x] = data[threadIdx.x];
  }
}
void run(bool wrong) {
  int *data = device_array(64), *flag = device_array(1), *x = device_array(64);
  pass_on<<<2, 64>>>(data, flag, x, wrong);
  cudaDeviceSynchronize();
  cudaFree(data);
  cudaFree(flag);
  finish(x);
}
