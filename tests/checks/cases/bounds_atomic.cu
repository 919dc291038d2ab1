// The largest value has no bin.
// wrong: out-of-bounds here
// right:
__global__ void count(const int* x, int* bins, int n, int last) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[min(x[i] + i, last)], 1);  // here
}
void run(bool wrong) {
  int *x = device_array(200), *bins = device_array(64);
  count<<<1, 96>>>(x, bins, 200, wrong ? 64 : 63);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(bins);
}
