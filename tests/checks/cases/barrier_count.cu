// A named barrier that waits for more threads than ever come.
// wrong: deadlock here
// right:
__global__ void meet(int* x, int threads) {
  if (threadIdx.x < 64) asm volatile("barrier.cta.sync 1, %0;" ::"r"(threads) : "memory");  // here
  x[threadIdx.x] = 1;
}
void run(bool wrong) {
  int* x = device_array(128);
  meet<<<1, 128>>>(x, wrong ? 96 : 64);
  finish(x);
}
