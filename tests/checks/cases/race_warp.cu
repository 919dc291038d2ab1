// Lanes of one warp exchange through shared memory.
// wrong: data-race here
// right:
__global__ void swap(int* x, bool sync) {
  __shared__ int s[32];
  s[threadIdx.x] = x[threadIdx.x];
  if (sync) __syncwarp();
  x[threadIdx.x] = s[threadIdx.x ^ 1];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  swap<<<1, 32>>>(x, !wrong);
  finish(x);
}
