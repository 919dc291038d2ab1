// Rows of pitched memory: the pitch counts bytes, not elements.
// wrong: out-of-bounds here
// right:
__global__ void fill(float* x, size_t pitch, int width, int height) {
  const int c = threadIdx.x, r = blockIdx.x;
  if (c < width && r < height) *reinterpret_cast<float*>(reinterpret_cast<char*>(x) + r * pitch + c * sizeof(float)) = r;  // here
}
void run(bool wrong) {
  float* x;
  size_t pitch;
  cudaMallocPitch(&x, &pitch, 100 * sizeof(float), 8);
  fill<<<8, 128>>>(x, wrong ? pitch * sizeof(float) : pitch, 100, 8);
  cudaDeviceSynchronize();
  cudaFree(x);
}
