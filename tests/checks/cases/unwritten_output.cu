// The tail of an output is never written.
// wrong: unwritten-output
// right:
__global__ void fill(int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i;
}
void run(bool wrong) {
  int* y = device_array(100);
  assay_expect_written(y, 400, "y");
  fill<<<wrong ? 3 : 4, 32>>>(y, 100);
  assay_judge_ranges(0);
  finish(y);
}
