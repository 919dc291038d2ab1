// Barriers in the two arms of a branch: whole warps may meet there, and threads that have returned need not come; lanes
// of one warp may not be at two places.
// wrong: barrier-divergence
// right:
__global__ void meet(int* x, int n, int group) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = t;
  if (t >= n) return;
  if (t / group % 2) {
    __syncthreads();
    x[t] = s[(t + 1) % n];
  } else {
    __syncthreads();
    x[t] = s[(t + 2) % n];
  }
}
void run(bool wrong) {
  int* x = device_array(64);
  meet<<<1, 64>>>(x, 50, wrong ? 8 : 32);
  finish(x);
}
