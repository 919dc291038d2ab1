// Each block writes a column and then sums a row; wrong: in one launch, where nothing orders the blocks.
// wrong: data-race here
// right:
__global__ void columns_and_rows(int* y, int* sums, int n, int from, int to) {
  if (from == 0)
    for (int r = threadIdx.x; r < n; r += blockDim.x) y[r * n + blockIdx.x] = r + 1;
  if (to == 1) atomicAdd(sums + blockIdx.x, y[blockIdx.x * n + threadIdx.x]);  // here
}
void run(bool wrong) {
  int *y = device_array(32 * 32), *sums = device_array(32);
  if (wrong) {
    columns_and_rows<<<32, 32>>>(y, sums, 32, 0, 1);
  } else {
    columns_and_rows<<<32, 32>>>(y, sums, 32, 0, 0);
    columns_and_rows<<<32, 32>>>(y, sums, 32, 1, 1);
  }
  cudaDeviceSynchronize();
  cudaFree(y);
  cudaFree(sums);
}
