// A product of 32 bits wraps, and the address lands in another array: the one that the pointer came from is meant.
// wrong: out-of-bounds here
// right:
// shows: bytes past the end of
// shows: lies there
__global__ void pick(const int* x, int* y, long long distance, bool wide) {
  const long long at = wide ? 1 : distance;
  y[threadIdx.x] = x[at + threadIdx.x];  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64), *z = device_array(64);
  pick<<<1, 32>>>(x, y, z - x, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
  cudaFree(z);
}
