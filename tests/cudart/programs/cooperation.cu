// Grid barriers, clusters with distributed shared memory, reductions, printf.
#include <cooperative_groups.h>

#include "check.h"
namespace cg = cooperative_groups;

__global__ void grid_steps(int* a, int* b, int n) {
  auto grid = cg::this_grid();
  for (int step = 0; step < 4; ++step) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) b[i] = a[(i + 1) % n] + 1;
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) a[i] = b[i];
    grid.sync();
  }
}
__global__ void __cluster_dims__(4, 1, 1) cluster_sum(int* out) {
  __shared__ int mine;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine = int(cluster.block_rank()) + 1;
  cluster.sync();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned r = 0; r < cluster.num_blocks(); ++r) sum += *cluster.map_shared_rank(&mine, r);
    out[blockIdx.x] = sum;
  }
  cluster.sync();
}
template <int kThreads>
__global__ void reduce(const float* x, float* sum, int n) {
  __shared__ float s[kThreads];
  float v = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) v += x[i];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int k = kThreads / 2; k > 0; k /= 2) {
    if (int(threadIdx.x) < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, s[0]);
}
__global__ void hello(int n) {
  if (int(threadIdx.x) < n) printf("thread %d of %s, %.2f\n", threadIdx.x, "the kernel", threadIdx.x * 0.5);
}

int main() {
  const int n = 1000;
  int *a, *b, h[n];
  CUDA(cudaMalloc(&a, n * 4));
  CUDA(cudaMalloc(&b, n * 4));
  for (int i = 0; i < n; ++i) h[i] = i;
  CUDA(cudaMemcpy(a, h, n * 4, cudaMemcpyHostToDevice));
  int count = n;
  void* args[] = {&a, &b, &count};
  CUDA(cudaLaunchCooperativeKernel(grid_steps, dim3(6), dim3(64), args, 0, 0));
  CUDA(cudaMemcpy(h, a, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT(h[i] == (i + 4) % n + 4);

  cluster_sum<<<8, 32>>>(a);
  CUDA(cudaMemcpy(h, a, 32, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8; ++i) EXPECT(h[i] == 10);

  float *x, *sum, total = 0;
  CUDA(cudaMallocManaged(&x, 100000 * 4));
  CUDA(cudaMalloc(&sum, 4));
  CUDA(cudaMemset(sum, 0, 4));
  for (int i = 0; i < 100000; ++i) x[i] = 1;
  int blocks = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reduce<256>, 256, 0));
  EXPECT(blocks == 8);
  reduce<256><<<32, 256>>>(x, sum, 100000);
  CUDA(cudaMemcpy(&total, sum, 4, cudaMemcpyDeviceToHost));
  EXPECT(total == 100000);

  puts("before");
  hello<<<1, 4>>>(3);
  CUDA(cudaDeviceSynchronize());
  puts("ok");
}
