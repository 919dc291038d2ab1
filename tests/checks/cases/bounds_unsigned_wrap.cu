// A neighbour to the left by unsigned arithmetic: of element 0 it lies four billion elements on.
// wrong: out-of-bounds here
// right:
__global__ void smooth(const int* x, int* y, unsigned n, bool guard) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int left = guard && i == 0 ? 0 : x[i - 1];  // here
  y[i] = left + x[i];
}
void run(bool wrong) {
  int *x = device_array(100), *y = device_array(100);
  smooth<<<1, 128>>>(x, y, 100, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
