// An input serves as scratch, and holds what it held before when the kernel ends.
// wrong: clobbered-input here
// right:
// shows: error: clobbered-input: changes offset 0 of
// shows: an input that must not change
// shows: kernel case_clobbered_input_restored::twice, block (0,0,0), thread (0,0,0)
__global__ void twice(int* x, int* y, int* scratch) {
  const int v = x[threadIdx.x];
  volatile int* s = scratch + threadIdx.x;
  *s = v + threadIdx.x + 1;  // here
  y[threadIdx.x] = *s - 1;
  *s = v;
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(64);
  assay_protect(x, 128, "x");
  twice<<<1, 32>>>(x, y, wrong ? x : y + 32);
  assay_judge_ranges(0);
  cudaFree(x);
  cudaFree(y);
}
