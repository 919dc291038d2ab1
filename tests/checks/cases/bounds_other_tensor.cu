// A row of another tensor's length: the index is far past the array, where other arrays would lie if allocations
// followed each other closely.
// wrong: out-of-bounds here
// right:
__global__ void fill(int* y, int row, int pitch) {
  y[row * pitch + threadIdx.x] = 1;  // here
}
void run(bool wrong) {
  constexpr int kElements = 1 << 16;
  int* y = device_array(kElements);
  int* others[4];
  for (auto& x : others) x = device_array(4 * kElements);
  fill<<<1, 32>>>(y, 8, wrong ? kElements : kElements / 16);
  cudaDeviceSynchronize();
  for (auto& x : others) cudaFree(x);
  cudaFree(y);
}
