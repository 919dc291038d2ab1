// A pipeline between two halves of a block: "full" and "empty" are named barriers at which one side arrives and
// the other waits. The consumers give a buffer back before they have read it.
// wrong: data-race
// right:
__device__ void arrive(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }
__device__ void wait(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__global__ void pipeline(int* out, int steps, bool wrong) {
  __shared__ int buffer[2][64];
  const int lane = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int i = 0; i < steps; ++i) {
      if (i >= 2) wait(3 + i % 2);
      buffer[i % 2][lane] = i + lane;
      arrive(1 + i % 2);
    }
  } else {
    int sum = 0;
    for (int i = 0; i < steps; ++i) {
      wait(1 + i % 2);
      if (wrong && i + 2 < steps) arrive(3 + i % 2);
      sum += buffer[i % 2][63 - lane];
      if (!wrong && i + 2 < steps) arrive(3 + i % 2);
    }
    out[lane] = sum;
  }
}
void run(bool wrong) {
  int* x = device_array(64);
  pipeline<<<1, 128>>>(x, 7, wrong);
  finish(x);
}
