// The end of a tree reduction on volatile shared memory, as it was written before Volta: it relies on the lanes of a
// warp running in step.
// wrong: data-race here
// right:
template <bool kSync>
__global__ void total(const int* x, int* y) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = x[t] + t;
  __syncthreads();
  if (t < 32) {
    volatile int* v = s;
    for (int d = 32; d; d /= 2) {
      const int other = v[t + d];
      if (kSync) __syncwarp();
      v[t] += other;  // here
      if (kSync) __syncwarp();
    }
  }
  if (t == 0) *y = s[0];
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(1);
  if (wrong)
    total<false><<<1, 64>>>(x, y);
  else
    total<true><<<1, 64>>>(x, y);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
