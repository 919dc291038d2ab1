// A sum over a warp of which half has gone another way, while the mask names all of it.
// wrong: barrier-divergence here
// right:
__global__ void sum(int* x, bool all) {
  const int lane = threadIdx.x;
  int v = lane;
  if (lane < 16) {
    for (int step = all ? 16 : 8; step > 0; step /= 2)
      v += __shfl_xor_sync(all ? 0xffffffffu : 0xffffu, v, step);  // here
  }
  if (lane == 0) x[0] = v;
}
void run(bool wrong) {
  int* x = device_array(64);
  sum<<<1, 32>>>(x, wrong);
  finish(x);
}
