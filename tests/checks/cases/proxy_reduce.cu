// A bulk reduction adds a tile to device memory, tile after tile; wrong: only the first tile is fenced.
// wrong: data-race here
// right:
__global__ void add_tiles(int* y, int tiles, bool always) {
  __shared__ alignas(16) int s[64];
  for (int i = 0; i < tiles; ++i) {
    s[threadIdx.x] = i + threadIdx.x;
    if (always || i == 0) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 256;" ::"l"(y), "r"(shared(s)) : "memory");  // here
      asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
  }
}
void run(bool wrong) {
  int* y = device_array(64);
  add_tiles<<<1, 64>>>(y, 3, !wrong);
  finish(y);
}
