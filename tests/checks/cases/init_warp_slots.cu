// A reduction over the block reads a slot for each of 32 warps, and the block has fewer.
// wrong: uninitialized
// right:
__global__ void reduce(int* x, bool wrong) {
  __shared__ int slots[32];
  int v = x[threadIdx.x];
  for (int d = 16; d; d /= 2) v = max(v, __shfl_xor_sync(0xffffffff, v, d));
  if (threadIdx.x % 32 == 0) slots[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = wrong || threadIdx.x < blockDim.x / 32 ? slots[threadIdx.x] : 0;
    for (int d = 16; d; d /= 2) v = max(v, __shfl_xor_sync(0xffffffff, v, d));
    if (threadIdx.x == 0) x[0] = v;
  }
}
void run(bool wrong) {
  int* x = device_array(128);
  reduce<<<1, 128>>>(x, wrong);
  finish(x);
}
