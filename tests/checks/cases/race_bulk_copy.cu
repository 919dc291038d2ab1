// A tile comes by bulk copy: one warp waits for it, and the others meet it at a barrier or do not.
// wrong: data-race here
// right:
__global__ void fetch(const int* x, int* y, bool meet) {
  __shared__ alignas(128) int tile[128];
  __shared__ unsigned long long barrier;
  tile[threadIdx.x] = 0;
  if (threadIdx.x == 0) init_barrier(shared(&barrier), 1);
  __syncthreads();
  for (int k = 0; k < 3; ++k) {
    if (threadIdx.x == 0) {
      arrive_expecting(shared(&barrier), 512);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(shared(tile)), "l"(x + k * 128), "r"(shared(&barrier)) : "memory");
    }
    if (threadIdx.x < 32) wait_for(shared(&barrier), k % 2);
    if (meet) __syncthreads();
    const int v = tile[127 - threadIdx.x];  // here
    __syncthreads();
    y[k * 128 + threadIdx.x] = v;
  }
}
void run(bool wrong) {
  int *x = device_array(384), *y = device_array(384);
  fetch<<<1, 128>>>(x, y, !wrong);
  finish(x);
  cudaFree(y);
}
