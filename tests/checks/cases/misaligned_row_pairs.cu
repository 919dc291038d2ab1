// Pairs of two-byte elements along rows of odd length.
// wrong: misaligned here
// right:
__global__ void sum(const unsigned short* x, int* y, int width, bool pairs) {
  const unsigned short* row = x + blockIdx.x * width;
  int s = 0;
  if (pairs || (blockIdx.x * width) % 2 == 0) {
    for (int c = 0; c + 1 < width; c += 2) {
      const unsigned both = *reinterpret_cast<const unsigned*>(row + c);  // here
      s += (both & 0xffff) + (both >> 16);
    }
    s += row[width - 1];
  } else {
    for (int c = 0; c < width; ++c) s += row[c];
  }
  y[blockIdx.x] = s;
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(4);
  sum<<<4, 1>>>(reinterpret_cast<unsigned short*>(x), y, 15, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
