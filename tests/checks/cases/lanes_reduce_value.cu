// A block reduces one value of each thread. The last steps, of one warp, work on volatile memory without barriers, as
// molecular dynamics codes did before Volta; wrong: that relies on lanes running in step.
// wrong: data-race here
// right:
__device__ int reduce_value(int value, volatile int* buffer, bool in_step) {
  const int t = threadIdx.x;
  buffer[t] = value;
  __syncthreads();
  for (int step = 1; step < 32; step *= 2) {
    const bool adds = t + step < static_cast<int>(blockDim.x) && t % (2 * step) == 0;
    if (!in_step) __syncwarp();
    if (adds) buffer[t] = buffer[t] + buffer[t + step];  // here
  }
  for (int step = 32; step < static_cast<int>(blockDim.x); step *= 2) {
    __syncthreads();
    if (t + step < static_cast<int>(blockDim.x) && t % (2 * step) == 0) buffer[t] = buffer[t] + buffer[t + step];
  }
  __syncthreads();
  return buffer[0];
}
__global__ void energy(const int* x, int* total, bool in_step) {
  __shared__ int buffer[128];
  const int sum = reduce_value(x[threadIdx.x] + threadIdx.x, buffer, in_step);
  if (threadIdx.x == 0) *total = sum;
}
void run(bool wrong) {
  int *x = device_array(128), *total = device_array(1);
  energy<<<1, 128>>>(x, total, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(total);
}
