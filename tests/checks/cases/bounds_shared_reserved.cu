// A read a kilobyte behind the block's shared memory, where the system keeps bytes for cooperative groups: they belong to the
// kernels that ask for them.
// wrong: out-of-bounds here
// right:
__global__ void far_behind(int* x, int shift) {
  __shared__ int tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x + shift];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  far_behind<<<1, 64>>>(x, wrong ? 256 : 0);
  finish(x);
}
