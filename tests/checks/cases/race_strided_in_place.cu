// Each block scales one channel in place and reads it again after a barrier, in another order; wrong: no barrier.
// wrong: data-race here
// right:
__global__ void scale_channels(int* x, int* last, int pixels, bool waits) {
  const int channels = gridDim.x, channel = blockIdx.x;
  for (int i = threadIdx.x; i < pixels; i += blockDim.x) x[i * channels + channel] = 3 * x[i * channels + channel] + i;
  if (waits) __syncthreads();
  int sum = 0;
  for (int i = threadIdx.x; i < pixels; i += blockDim.x) sum += x[(pixels - 1 - i) * channels + channel];  // here
  atomicAdd(last + channel, sum);
}
void run(bool wrong) {
  int *x = device_array(20 * 128), *last = device_array(20);
  scale_channels<<<20, 64>>>(x, last, 128, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(last);
}
