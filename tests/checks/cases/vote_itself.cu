// A vote whose mask does not name the lane that calls it.
// wrong: barrier-divergence here
// right:
__global__ void count(int* x, unsigned mask) {
  if (threadIdx.x < 16) x[threadIdx.x] = __popc(__ballot_sync(mask, threadIdx.x & 1));  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  count<<<1, 32>>>(x, wrong ? 0x7fff : 0xffff);
  finish(x);
}
