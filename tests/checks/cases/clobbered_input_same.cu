// Every element is stored as it was read: a warning in both, and an error where one of them changes.
// wrong: clobbered-input here
// right: clobbered-input
// shows: error: clobbered-input
__global__ void touch(volatile int* x, int* y, int changed) {
  const int v = x[threadIdx.x];
  x[threadIdx.x] = threadIdx.x == changed ? v + 1 : v;  // here
  y[threadIdx.x] = v;
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  assay_protect(x, 128, "x");
  touch<<<1, 32>>>(x, y, wrong ? 5 : 99);
  assay_judge_ranges(0);
  cudaFree(x);
  cudaFree(y);
}
