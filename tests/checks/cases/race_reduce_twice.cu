// A sum over the block, twice (mean, then variance), by one array of partial sums: between the two a barrier is needed.
// wrong: data-race
// right:
__device__ float block_sum(float v, bool meet) {
  __shared__ float parts[32];
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) v += parts[w];
  if (meet) __syncthreads();
  return v;
}
__global__ void normalise(const float* x, float* y, int n, bool meet) {
  const float v = x[threadIdx.x] + threadIdx.x;
  const float mean = block_sum(v, meet) / n;
  const float d = v - mean;
  const float variance = block_sum(d * d, meet) / n;
  y[threadIdx.x] = d * rsqrtf(variance + 1e-5f);
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(128);
  normalise<<<1, 128>>>(reinterpret_cast<float*>(x), reinterpret_cast<float*>(y), 128, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
