// One thread adds up what the warps left, and the next round may overwrite it. That its sum is chosen by a condition only
// later, behind a barrier, does not make it a load that the compiler moved.
// wrong: data-race
// right:
__global__ void two_sums(int* y, bool meet) {
  __shared__ int parts[4];
  const int t = threadIdx.x;
  if (t % 32 == 0) parts[t / 32] = t;
  __syncthreads();
  int total = 0;
  if (t == 0) total = parts[1] + parts[2] + parts[3];
  if (meet) __syncthreads();
  if (t % 32 == 0) parts[t / 32] = t * t + 1;
  __syncthreads();
  y[t] = t == 0 ? total + parts[3] : 0;
}
void run(bool wrong) {
  int* y = device_array(128);
  two_sums<<<1, 128>>>(y, !wrong);
  finish(y);
}
