// Device code in two files, linked by -rdc=true.
#include "check.h"
__device__ int twice(int x);
extern __device__ int base;
__global__ void run(int* p) {
  *p = twice(*p) + base;
}
int main() {
  int *p, h = 20;
  CUDA(cudaMalloc(&p, 4));
  CUDA(cudaMemcpy(p, &h, 4, cudaMemcpyHostToDevice));
  run<<<1, 1>>>(p);
  CUDA(cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost));
  EXPECT(h == 42);
  puts("ok");
}
