// Objects that live outside main use the runtime before and after it; the exit status passes through.
#include "check.h"
__global__ void set(int* p) {
  *p = 42;
}
struct Buffer {
  int* p = nullptr;
  Buffer() { CUDA(cudaMalloc(&p, 4)); }
  ~Buffer() {
    int h = 0;
    cudaMemcpy(&h, p, 4, cudaMemcpyDeviceToHost);
    printf("at the end %d\n", h);
    cudaError_t status = cudaFree(p);
    if (status != cudaSuccess) printf("%s\n", cudaGetErrorName(status));
  }
};
static Buffer buffer;
int main() {
  set<<<1, 1>>>(buffer.p);
  return 7;
}
