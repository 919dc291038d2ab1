// A word of another block's shared memory at an address that is no multiple of 4.
// wrong: misaligned here
// right:
__global__ void __cluster_dims__(2, 1, 1) peek(int* y, unsigned shift) {
  __shared__ int s[34];
  s[threadIdx.x] = s[threadIdx.x + 2] = 0;  // the same value, twice
  cluster_sync();
  int v;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(in_block(shared(&s[threadIdx.x]), block_rank() ^ 1) + shift) : "memory");  // here
  y[blockIdx.x * 32 + threadIdx.x] = v;
  cluster_sync();
}
void run(bool wrong) {
  int* y = device_array(64);
  peek<<<2, 32>>>(y, wrong ? 2 : 4);
  finish(y);
}
