// A row and a pitch are multiplied in 32 bits: the product wraps, and the index is wrong by 2^32 elements. No other
// allocation is where it leads.
// wrong: out-of-bounds here
// right:
__global__ void fill(int* y, long long row, long long pitch, bool wraps) {
  const long long at = wraps ? static_cast<unsigned>(row) * static_cast<unsigned>(pitch) : row * pitch;
  y[at - row * pitch + threadIdx.x] = 1;  // here
}
void run(bool wrong) {
  int* before[4];
  for (auto& x : before) x = device_array(1 << 20);
  int* y = device_array(32);
  int* after[4];
  for (auto& x : after) x = device_array(1 << 20);
  fill<<<1, 32>>>(y, 70001, 65536, wrong);
  cudaDeviceSynchronize();
  for (auto& x : before) cudaFree(x);
  for (auto& x : after) cudaFree(x);
  cudaFree(y);
}
