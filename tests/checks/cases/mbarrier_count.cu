// More threads arrive at an mbarrier than it was made for.
// wrong: barrier-divergence here
// right:
__global__ void meet(int* y, unsigned count) {
  __shared__ unsigned long long barrier;
  if (threadIdx.x == 0) {
    init_barrier(shared(&barrier), count);
    arrive_expecting(shared(&barrier), 16);  // nobody sends that
  }
  __syncthreads();
  if (threadIdx.x < 31) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(&barrier)) : "memory");  // here
  y[threadIdx.x] = threadIdx.x;
}
void run(bool wrong) {
  int* y = device_array(32);
  meet<<<1, 32>>>(y, wrong ? 16 : 32);
  finish(y);
}
