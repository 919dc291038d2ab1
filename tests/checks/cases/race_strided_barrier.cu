// The threads of a block read a column each of a tile in device memory, and then overwrite its rows; wrong: without a
// barrier in between. Elements are halves: two threads share each word.
// wrong: data-race here
// right:
__global__ void sum_columns(unsigned short* tile, int* sums, bool waits) {
  const int t = threadIdx.x;
  int sum = 0;
  for (int i = 0; i < 64; ++i) sum += tile[t * 66 + i];
  if (waits) __syncthreads();
  for (int i = 0; i < 64; ++i) tile[i * 66 + t] = static_cast<unsigned short>(sum + i);  // here
  sums[t] = sum;
}
void run(bool wrong) {
  int *tile = device_array(33 * 64), *sums = device_array(64);
  sum_columns<<<1, 64>>>(reinterpret_cast<unsigned short*>(tile), sums, !wrong);
  cudaDeviceSynchronize();
  cudaFree(tile);
  cudaFree(sums);
}
