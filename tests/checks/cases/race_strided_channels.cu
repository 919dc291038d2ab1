// Each block sums one channel, whose elements lie far apart, and clears it; wrong: it clears the next block's.
// wrong: data-race here
// right:
__global__ void take_channels(int* x, int* sums, int pixels, int step) {
  const int channels = gridDim.x, channel = blockIdx.x, clears = (channel + step) % channels;
  int sum = 0;
  for (int i = threadIdx.x; i < pixels; i += blockDim.x) sum += x[i * channels + channel];
  for (int i = threadIdx.x; i < pixels; i += blockDim.x) x[i * channels + clears] = -1 - i;  // here
  atomicAdd(sums + channel, sum);
}
void run(bool wrong) {
  int *x = device_array(24 * 256), *sums = device_array(24);
  take_channels<<<24, 64>>>(x, sums, 256, wrong ? 1 : 0);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(sums);
}
