// Lanes exchange values through shared memory of their warp; wrong: without __syncwarp between write and read.
// wrong: data-race here
// right:
__global__ void exchange(const int* x, int* y, bool in_step) {
  __shared__ int s[4][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  s[warp][lane] = x[threadIdx.x] + lane;
  if (!in_step) __syncwarp();
  y[threadIdx.x] = s[warp][31 - lane];  // here
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(128);
  exchange<<<1, 128>>>(x, y, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
