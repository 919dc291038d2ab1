// Warp-wide operations in the two arms of a branch: each names the lanes of its arm, or all, and waits for them.
// wrong: deadlock here
// right:
__global__ void neighbours(int* x, bool all) {
  const int lane = threadIdx.x;
  const unsigned half = __ballot_sync(0xffffffffu, lane < 16);
  const unsigned mask = all ? 0xffffffffu : lane < 16 ? half : ~half;
  int v = lane;
  if (lane < 16)
    v = __shfl_xor_sync(mask, v, 1);  // here
  else
    v = __reduce_add_sync(mask, v);
  x[lane] = v;
}
void run(bool wrong) {
  int* x = device_array(64);
  neighbours<<<1, 32>>>(x, wrong);
  if (cudaDeviceSynchronize() == cudaSuccess) cudaFree(x);
}
