#include <cstdio>

__global__ void keep(int* kept, int* count, bool in_order) {
  const int slot = atomicAdd(count, 1);
  kept[in_order ? blockIdx.x : slot] = blockIdx.x;
}

int main(int count, char**) {
  int* memory;
  cudaMalloc(&memory, 9 * sizeof(int));
  cudaMemset(memory, 0, 9 * sizeof(int));
  keep<<<8, 1>>>(memory + 1, memory, count > 1);
  int last = 0;
  cudaMemcpy(&last, memory + 8, sizeof last, cudaMemcpyDeviceToHost);
  printf("last %d\n", last);
  cudaFree(memory);
}
