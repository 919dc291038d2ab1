// Threads write rows of a tile in device memory, then overwrite its columns; wrong: without a barrier in between.
// wrong: data-race here
// right:
__global__ void twice(int* tile, bool waits) {
  const int t = threadIdx.x;
  for (int i = 0; i < 64; ++i) tile[i * 64 + t] = i;
  if (waits) __syncthreads();
  for (int i = 0; i < 64; ++i) tile[t * 64 + i] = 1000 + t;  // here
}
void run(bool wrong) {
  int* tile = device_array(64 * 64);
  twice<<<1, 64>>>(tile, !wrong);
  finish(tile);
}
