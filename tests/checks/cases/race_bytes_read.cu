// Halves of a word by two threads; a third reads the first of them, after a barrier or without.
// wrong: data-race here
// right:
__global__ void exchange(short* x, short* y, bool sync) {
  if (threadIdx.x == 0) x[0] = 7;  // here
  if (threadIdx.x == 33) x[1] = 8;
  if (sync) __syncthreads();
  if (threadIdx.x == 64) y[0] = x[0];
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  exchange<<<1, 96>>>(reinterpret_cast<short*>(x), reinterpret_cast<short*>(y), !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
