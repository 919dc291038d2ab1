// Who waits for a phase that was over before learns nothing of the one under way, even where all the others have
// arrived.
// wrong: data-race here
// right:
__global__ void hand_over(int* y, bool early) {
  __shared__ int s[32];
  __shared__ unsigned long long barrier;
  if (threadIdx.x < 32) s[threadIdx.x] = 0;
  if (threadIdx.x == 0) init_barrier(shared(&barrier), 33);
  __syncthreads();
  if (threadIdx.x >= 32) {
    s[threadIdx.x - 32] = threadIdx.x;  // here
    arrive_in(shared(&barrier), 0);
    return;
  }
  if (!early && threadIdx.x == 0) arrive_in(shared(&barrier), 0);
  wait_for(shared(&barrier), early ? 1 : 0);
  y[threadIdx.x] = s[31 - threadIdx.x];
  if (early && threadIdx.x == 0) arrive_in(shared(&barrier), 0);
}
void run(bool wrong) {
  int* y = device_array(32);
  hand_over<<<1, 64>>>(y, wrong);
  finish(y);
}
