// A scan of one warp on volatile shared memory; wrong: nothing but running in step keeps reads before writes.
// wrong: data-race here
// right:
__global__ void scan(const int* x, int* y, bool in_step) {
  __shared__ volatile int s[32];
  const int t = threadIdx.x;
  s[t] = x[t] + 1;
  if (!in_step) __syncwarp();
  for (int step = 1; step < 32; step *= 2) {
    const int before = t >= step ? s[t - step] : 0;
    if (!in_step) __syncwarp();
    s[t] = s[t] + before;  // here
    if (!in_step) __syncwarp();
  }
  y[t] = s[t];
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  scan<<<1, 32>>>(x, y, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
