// An input serves as scratch.
// wrong: clobbered-input here
// right:
__global__ void scale(int* x, int* y, bool in_place) {
  const int v = x[threadIdx.x] * 2;
  if (in_place) x[threadIdx.x] = v;  // here
  y[threadIdx.x] = v;
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  cudaMemset(x, 0, 256);  // asked for before, though it may run later
  assay_protect(x, 256, "x");
  scale<<<1, 32>>>(x, y, wrong);
  assay_judge_ranges(0);
  cudaFree(x);
  cudaFree(y);
}
