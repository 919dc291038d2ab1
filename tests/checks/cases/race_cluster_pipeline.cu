// One block fills buffers in another's shared memory: "full" is there, "empty" at home. An arrival that is
// relaxed brings nothing along.
// wrong: data-race here
// right:
__global__ void __cluster_dims__(2, 1, 1) pipeline(int* y, bool releases) {
  __shared__ int buffer[2][64];
  __shared__ unsigned long long full[2], empty[2];
  for (int s = 0; s < 2 && threadIdx.x == 0; ++s) {
    init_barrier(shared(&full[s]), 64);
    init_barrier(shared(&empty[s]), 2);
  }
  cluster_arrive_relaxed();  // the barriers have been fenced
  cluster_wait();
  int sum = 0;
  for (int k = 0; k < 7; ++k) {
    const int s = k % 2, round = k / 2 % 2;
    if (block_rank() == 0) {
      wait_for(shared(&empty[s]), round ^ 1);
      const unsigned to = in_block(shared(&buffer[s][threadIdx.x]), 1);
      asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(k + threadIdx.x) : "memory");
      if (releases)
        arrive_in(shared(&full[s]), 1);
      else
        asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(in_block(shared(&full[s]), 1)) : "memory");
    } else {
      wait_for(shared(&full[s]), round);
      sum += buffer[s][63 - threadIdx.x];  // here
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive_in(shared(&empty[s]), 0);
    }
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
  cluster_sync();
}
void run(bool wrong) {
  int* y = device_array(128);
  pipeline<<<2, 64>>>(y, !wrong);
  finish(y);
}
