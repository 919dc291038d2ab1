// The host works on one half of managed memory while a kernel works on the other.
// wrong: data-race here
// right:
__global__ void scale(float* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] *= 2.f;  // here
}
void run(bool wrong) {
  float* x = nullptr;
  cudaMallocManaged(&x, 64 * sizeof(float));
  for (int i = 0; i < 64; ++i) x[i] = 1.f;
  scale<<<1, 32>>>(x, 32);
  for (int i = wrong ? 31 : 32; i < 64; ++i) x[i] *= 3.f;
  cudaDeviceSynchronize();
  cudaFree(x);
}
