// The largest value of a block by an atomic, from a place in shared memory that nobody set.
// wrong: uninitialized
// right:
__global__ void largest(const float* x, float* y, int n, bool set) {
  __shared__ int best;
  if (set && threadIdx.x == 0) best = __float_as_int(0.f);
  __syncthreads();
  float mine = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine = fmaxf(mine, fabsf(x[i]));
  atomicMax(&best, __float_as_int(mine));
  __syncthreads();
  y[threadIdx.x] = x[threadIdx.x] / fmaxf(__int_as_float(best), 1e-6f);
}
void run(bool wrong) {
  int *x = device_array(100), *y = device_array(64);
  largest<<<1, 64>>>(reinterpret_cast<float*>(x), reinterpret_cast<float*>(y), 100, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
