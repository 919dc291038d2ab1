// Marks in an input that atomics set and clear again; in the other kernel they go to an array beside it.
// wrong: clobbered-input here
// right:
__global__ void visit(int* marks, int* y) {
  const int old = atomicXor(marks + threadIdx.x / 2, 1 << 31);  // here
  atomicAdd(y + threadIdx.x / 2, old < 0 ? 2 : 1);
  atomicXor(marks + threadIdx.x / 2, 1 << 31);
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32), *marks = device_array(32);
  assay_protect(x, 128, "x");
  visit<<<1, 64>>>(wrong ? x : marks, y);
  assay_judge_ranges(0);
  for (int* p : {x, y, marks}) cudaFree(p);
}
