// A load past the end: uses of the value that it did not bring are not reported again.
// wrong: out-of-bounds here
// right:
__global__ void copy(const int* x, int* y, int shift) {
  y[threadIdx.x] = x[threadIdx.x + shift];  // here
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  copy<<<1, 32>>>(x, y, wrong ? 1 : 0);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
