// The last tile of an asynchronous copy: what lies past the end must be left out by its source size.
// wrong: out-of-bounds here
// right:
__global__ void sum(const float* x, float* y, int n, bool fill) {
  __shared__ float4 tile[64];
  const int t = threadIdx.x, first = (blockIdx.x * 64 + t) * 4;
  const int bytes = fill ? max(0, min(16, (n - first) * 4)) : 16;
  const unsigned to = (unsigned)__cvta_generic_to_shared(&tile[t]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(x + first), "r"(bytes) : "memory");  // here
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  const float4 v = tile[63 - t];
  y[blockIdx.x * 64 + t] = v.x + v.y + v.z + v.w;
}
void run(bool wrong) {
  int *x = device_array(4 * 100 + 2), *y = device_array(128);
  sum<<<2, 64>>>(reinterpret_cast<float*>(x), reinterpret_cast<float*>(y), 4 * 100 + 2, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
