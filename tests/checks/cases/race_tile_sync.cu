// Lanes of a warp exchange values through shared memory; a tile of half a warp does not order the other half.
// wrong: data-race
// right:
__global__ void reverse(int* x, bool wrong) {
  namespace cg = cooperative_groups;
  __shared__ int line[32];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto half = cg::tiled_partition<16>(warp);
  line[threadIdx.x] = threadIdx.x;
  if (wrong)
    half.sync();
  else
    warp.sync();
  x[threadIdx.x] = line[31 - threadIdx.x];
}
void run(bool wrong) {
  int* x = device_array(32);
  reverse<<<1, 32>>>(x, wrong);
  finish(x);
}
