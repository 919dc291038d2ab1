// A bulk copy from an address that is no multiple of 16.
// wrong: misaligned here
// right:
__global__ void fetch(const int* x, int* y, int shift) {
  __shared__ alignas(128) int s[64];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(s));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], 256; }" ::"r"(at) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(to), "l"(x + shift), "r"(at) : "memory");  // here
  }
  __syncthreads();
  asm volatile(
      "{ .reg .pred p; WAIT%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @p bra DONE%=; bra WAIT%=; DONE%=: }" ::"r"(at)
      : "memory");
  y[threadIdx.x] = s[threadIdx.x];
}
void run(bool wrong) {
  int *x = device_array(128), *y = device_array(64);
  fetch<<<1, 64>>>(x, y, wrong ? 1 : 4);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
