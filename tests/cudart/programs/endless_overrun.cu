// One store past the end, in a launch that never ends.
#include "check.h"
__global__ void one_too_many(int* p, int n) {
  if (threadIdx.x <= n) p[threadIdx.x] = threadIdx.x;
  for (unsigned i = 1; i != 0 || n != 0;) i = i * 5 + 1;
}
int main() {
  int* p;
  CUDA(cudaMalloc(&p, 31 * 4));
  one_too_many<<<1, 32>>>(p, 31);
  CUDA(cudaDeviceSynchronize());
}
