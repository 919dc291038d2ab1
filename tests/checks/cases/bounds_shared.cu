// A store past the block's shared memory.
// wrong: out-of-bounds here
// right:
__global__ void fill(int* x, int shift) {
  __shared__ int s[32];
  s[threadIdx.x + shift] = threadIdx.x;  // here
  __syncthreads();
  if (threadIdx.x < 16) x[threadIdx.x] = s[16 + threadIdx.x];
}
void run(bool wrong) {
  int* x = device_array(64);
  fill<<<1, 16>>>(x, 16);
  fill<<<1, 16>>>(x, wrong ? 4096 : 16);
  finish(x);
}
// With the shift of 4096 nothing is stored, and what is read was never written.
// wrong: uninitialized
