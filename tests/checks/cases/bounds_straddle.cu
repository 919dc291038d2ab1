// A vector load that begins in an allocation and ends outside of it.
// wrong: out-of-bounds here
// right:
__global__ void sum(const float* x, float* y, int at) {
  const float4 v = *reinterpret_cast<const float4*>(x + at);  // here
  y[0] = v.x + v.y + v.z + v.w;
}
void run(bool wrong) {
  float* x;
  cudaMalloc(&x, 6 * sizeof(float));
  cudaMemset(x, 0, 6 * sizeof(float));
  float* y = reinterpret_cast<float*>(device_array(4));
  sum<<<1, 1>>>(x, y, wrong ? 4 : 0);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
