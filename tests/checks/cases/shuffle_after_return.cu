// Lanes have returned. A vote may name them, and they have no say; a shuffle may not read them.
// wrong: barrier-divergence here
// right:
__global__ void count(int* y, int n, int from) {
  if (threadIdx.x >= n) return;
  const int odd = __popc(__ballot_sync(~0u, threadIdx.x % 2)) + __popc(__ballot_sync(__activemask(), threadIdx.x % 3));
  const int other = __shfl_sync(~0u, threadIdx.x * 3, from);  // here
  y[threadIdx.x] = odd + other;
}
void run(bool wrong) {
  int* y = device_array(32);
  count<<<1, 32>>>(y, 20, wrong ? 25 : 15);
  finish(y);
}
