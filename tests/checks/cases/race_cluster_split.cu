// Between its arrival and its wait a block may do what nobody else looks at; a cluster barrier does not cover it.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) exchange(int* y, bool early) {
  __shared__ int in[32], own[32];
  in[threadIdx.x] = 0;
  cluster_sync();
  const unsigned to = in_block(shared(&in[threadIdx.x]), block_rank() ^ 1);
  if (early) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(threadIdx.x + 1) : "memory");
  cluster_arrive();
  own[threadIdx.x] = threadIdx.x;
  if (!early) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(threadIdx.x + 1) : "memory");  // here
  cluster_wait();
  y[blockIdx.x * 32 + threadIdx.x] = in[threadIdx.x] + own[threadIdx.x];
  cluster_sync();
}
void run(bool wrong) {
  int* y = device_array(128);
  exchange<<<4, 32>>>(y, !wrong);
  finish(y);
}
