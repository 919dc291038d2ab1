// Three stages of cp.async: of the groups under way one too many may still be pending.
// wrong: data-race,uninitialized
// right:
__global__ void stages(const int4* in, int* out, int tiles, bool wrong) {
  __shared__ int4 stage[3][32];
  const int t = threadIdx.x;
  auto fetch = [&](int tile) {
    if (tile < tiles)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(&stage[tile % 3][t])),
                   "l"(in + tile * 32 + t)
                   : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  fetch(1);
  int sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    if (wrong)
      asm volatile("cp.async.wait_group 2;" ::: "memory");
    else
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    sum += stage[tile % 3][31 - t].x;
    __syncthreads();
    fetch(tile + 2);
  }
  out[t] = sum;
}
void run(bool wrong) {
  int *in = device_array(6 * 32 * 4), *x = device_array(32);
  stages<<<1, 32>>>((const int4*)in, x, 6, wrong);
  cudaDeviceSynchronize();
  cudaFree(in);
  finish(x);
}
