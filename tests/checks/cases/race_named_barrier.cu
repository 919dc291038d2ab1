// A producer and a consumer warp meet at a named barrier.
// wrong: data-race here
// right:
__global__ void hand_over(int* x, int barrier) {
  __shared__ int s[32];
  const int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    s[lane] = lane;
    asm volatile("barrier.cta.sync 1, 64;" ::: "memory");
  } else {
    asm volatile("barrier.cta.sync %0, 64;" ::"r"(1) : "memory");
    x[lane] = s[lane ^ 1];
  }
  if (barrier) asm volatile("barrier.cta.sync 2, 64;" ::: "memory");
  if (threadIdx.x < 32) s[lane] = 0;  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  hand_over<<<1, 64>>>(x, !wrong);
  finish(x);
}
