// A vector load from an odd element.
// wrong: misaligned here
// right:
__global__ void sum(const float* x, float* y, int shift) {
  const float2 v = reinterpret_cast<const float2*>(x + shift)[threadIdx.x];  // here
  y[threadIdx.x] = v.x + v.y;
}
void run(bool wrong) {
  float *x = reinterpret_cast<float*>(device_array(128)), *y = reinterpret_cast<float*>(device_array(64));
  sum<<<1, 32>>>(x, y, wrong ? 1 : 2);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
