// A shuffle that reads a lane which takes no part.
// wrong: barrier-divergence here
// right:
__global__ void neighbours(int* x, unsigned mask, int n) {
  const int lane = threadIdx.x;
  if (lane < n) x[lane] = __shfl_down_sync(mask, lane, 1);  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  neighbours<<<1, 32>>>(x, wrong ? 0xffff : 0xffffffff, wrong ? 16 : 32);
  finish(x);
}
