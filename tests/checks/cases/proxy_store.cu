// Threads fill a tile that a bulk copy then stores; wrong: no fence between the proxies.
// wrong: data-race here
// right:
// shows: fence.proxy.async
__global__ void store(int* y, bool fences) {
  __shared__ alignas(16) int s[128];
  s[threadIdx.x] = threadIdx.x;
  if (fences) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(y), "r"(shared(s)) : "memory");  // here
    asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
  }
}
void run(bool wrong) {
  int* y = device_array(128);
  store<<<1, 128>>>(y, !wrong);
  finish(y);
}
