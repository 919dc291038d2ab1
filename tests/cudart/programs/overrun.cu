// One store past the end, which an H200 does not notice.
#include "check.h"
__global__ void one_too_many(int* p, int n) {
  int i = threadIdx.x;
  if (i <= n) p[i] = i;
}
int main() {
  int* p;
  CUDA(cudaMalloc(&p, 31 * 4));
  one_too_many<<<1, 32>>>(p, 31);
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaFree(p));
  puts("ok");
}
