// A shuffle that reads lanes which take no part: what it brings is undefined. A reduction over half a warp does that and
// throws the value away.
// wrong: uninitialized here
// right:
__global__ void sum(int* x, bool all) {
  const int lane = threadIdx.x;
  if (lane >= 16) return;
  int v = lane;
  for (int step = 8; step > 0; step /= 2) v += __shfl_down_sync(0xffff, v, step);
  if (all || lane == 0) x[lane] = v;  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  sum<<<1, 32>>>(x, wrong);
  finish(x);
}
