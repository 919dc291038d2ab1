// A histogram for each warp, added up at the end. Lanes of one warp still meet in one bin.
// wrong: data-race here
// right:
__global__ void count(const int* x, int* bins, int n, bool atomic) {
  __shared__ int mine[4][16];
  for (int i = threadIdx.x; i < 64; i += blockDim.x) (&mine[0][0])[i] = 0;
  __syncthreads();
  const int w = threadIdx.x / 32;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int bin = (x[i] + i) % 16;
    if (atomic)
      atomicAdd(&mine[w][bin], 1);
    else
      ++mine[w][bin];  // here
  }
  __syncthreads();
  if (threadIdx.x < 16) bins[threadIdx.x] = mine[0][threadIdx.x] + mine[1][threadIdx.x] + mine[2][threadIdx.x] + mine[3][threadIdx.x];
}
void run(bool wrong) {
  int *x = device_array(512), *bins = device_array(16);
  count<<<1, 128>>>(x, bins, 512, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(bins);
}
