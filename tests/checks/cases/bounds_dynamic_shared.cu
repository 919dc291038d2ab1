// The launch gives fewer bytes of dynamic shared memory than the kernel uses.
// wrong: out-of-bounds here
// right:
__global__ void tile(int* x, int n) {
  extern __shared__ int tile_of_block[];
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    tile_of_block[i] = i;  // here
  __syncthreads();
  x[threadIdx.x] = tile_of_block[(n - 1 - threadIdx.x) % 64];
}
void run(bool wrong) {
  int* x = device_array(32);
  tile<<<1, 32, wrong ? 64 : 64 * sizeof(int)>>>(x, 64);
  finish(x);
}
