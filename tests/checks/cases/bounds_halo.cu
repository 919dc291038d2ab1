// A tile with a halo on both sides, which has room for one side only.
// wrong: out-of-bounds
// right:
template <int kRoom>
__global__ void blur(const int* x, int* y, int n) {
  __shared__ int tile[kRoom];
  const int t = threadIdx.x, i = blockIdx.x * 64 + t;
  tile[t + 1] = i < n ? x[i] : 0;
  if (t == 0) tile[0] = i > 0 ? x[i - 1] : 0;
  if (t == 63) tile[65] = i + 1 < n ? x[i + 1] : 0;
  __syncthreads();
  if (i < n) y[i] = tile[t] + tile[t + 1] + tile[t + 2];
}
void run(bool wrong) {
  int *x = device_array(100), *y = device_array(100);
  if (wrong)
    blur<65><<<2, 64>>>(x, y, 100);
  else
    blur<66><<<2, 64>>>(x, y, 100);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
