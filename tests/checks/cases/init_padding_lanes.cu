// The lanes behind the end take part in a sum by shuffles, with what nobody loaded.
// wrong: uninitialized
// right:
__global__ void total(const float* x, float* y, int n, float other, bool zero) {
  __shared__ float s[32];
  const int t = threadIdx.x;
  if (t < n)
    s[t] = x[t] * other;
  else if (zero)
    s[t] = 0;
  __syncwarp();
  float v = s[t];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
  if (t == 0) *y = v;
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(1);
  total<<<1, 32>>>(reinterpret_cast<float*>(x), reinterpret_cast<float*>(y), 20, 2.f, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
