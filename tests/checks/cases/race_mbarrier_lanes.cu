// Lanes of one warp wait for each other at an mbarrier, which they meet twice in each round, or once.
// wrong: data-race here
// right:
__global__ void rounds(int* y, bool twice) {
  __shared__ int s[32];
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) init_barrier(shared(&barrier), 32);
  __syncwarp();
  int v = threadIdx.x, phase = 0;
  for (int k = 0; k < 3; ++k) {
    s[threadIdx.x] = v + k;  // here
    arrive_in(shared(&barrier), 0);
    wait_for(shared(&barrier), phase++ & 1);
    v += s[31 - threadIdx.x];
    if (!twice) continue;
    arrive_in(shared(&barrier), 0);
    wait_for(shared(&barrier), phase++ & 1);
  }
  y[threadIdx.x] = v;
}
void run(bool wrong) {
  int* y = device_array(32);
  rounds<<<1, 32>>>(y, !wrong);
  finish(y);
}
