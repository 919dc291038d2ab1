// No blocks for no elements is an error, and nobody asks.
// wrong: launch-failure
// right:
__global__ void fill(int* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = 1;
}
void run(bool wrong) {
  int* x = device_array(64);
  const int n = wrong ? 0 : 40;
  fill<<<(n + 63) / 64, 64>>>(x, n);
  finish(x);
}
