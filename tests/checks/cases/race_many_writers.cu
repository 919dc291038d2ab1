// Eight warps write a word each of the same 64 bytes, and a thread of the last one adds up the first four.
// wrong: data-race here
// right:
__global__ void sum(int* x, bool sync) {
  if (threadIdx.x % 32 == 0) x[threadIdx.x / 32] = 1 + threadIdx.x;
  if (sync) __syncthreads();
  if (threadIdx.x != 255) return;
  int all = 0;
  for (int i = 0; i < 4; ++i) all += x[i];  // here
  x[8] = all;
}
void run(bool wrong) {
  int* x = device_array(16);
  sum<<<1, 256>>>(x, !wrong);
  finish(x);
}
