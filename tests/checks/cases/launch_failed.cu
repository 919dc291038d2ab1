// A launch with too many threads; the program does not ask, or asks and goes on with fewer.
// wrong: launch-failure,leak
// right:
__global__ void fill(int* x) { x[threadIdx.x] = 1; }
void run(bool wrong) {
  int* x = device_array(2048);
  if (wrong) {
    fill<<<1, 2048>>>(x);
  } else {
    fill<<<2, 1024>>>(x);
    if (cudaGetLastError() != cudaSuccess) abort();
    finish(x);
  }
}
