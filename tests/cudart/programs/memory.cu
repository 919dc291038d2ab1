// Every way to allocate, copy and fill.
#include <cstring>
#include <vector>

#include "check.h"

__device__ int counter[4] = {1, 2, 3, 4};
__constant__ float scale = 2.5f;
__managed__ int shared_sum = 7;

__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = (a[i] + b[i]) * scale;
}
__global__ void bump(int* p) {
  atomicAdd(&counter[threadIdx.x % 4], 1);
  if (threadIdx.x == 0) {
    shared_sum += 1;
    *p += 1;
  }
}
__global__ void fill_rows(char* p, size_t pitch, int width, int height) {
  for (int y = 0; y < height; ++y)
    for (int x = threadIdx.x; x < width; x += blockDim.x) p[y * pitch + x] = char(y * width + x);
}

static void flat() {
  const int n = 10000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) {
    a[i] = i;
    b[i] = 2 * i;
  }
  float *da, *db, *dc;
  CUDA(cudaMalloc(&da, n * 4));
  CUDA(cudaMalloc(&db, n * 4));
  CUDA(cudaMalloc(&dc, n * 4));
  CUDA(cudaMemcpy(da, a.data(), n * 4, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(db, b.data(), n * 4, cudaMemcpyDefault));
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  CUDA(cudaGetLastError());
  CUDA(cudaMemcpy(c.data(), dc, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT(c[i] == 7.5f * i);
  float half = 0.5f;
  CUDA(cudaMemcpyToSymbol(scale, &half, 4));
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  CUDA(cudaMemcpy(c.data(), dc, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT(c[i] == 1.5f * i);
  CUDA(cudaMemset(dc, 0x40, n * 4));
  CUDA(cudaMemcpy(da, dc, n * 4, cudaMemcpyDeviceToDevice));
  CUDA(cudaMemcpy(a.data(), da, n * 4, cudaMemcpyDeviceToHost));
  unsigned bits;
  memcpy(&bits, &a[n - 1], 4);
  EXPECT(bits == 0x40404040);
  CUDA(cudaFree(da));
  CUDA(cudaFree(db));
  CUDA(cudaFree(dc));
}

static void variables() {
  int *pinned, *managed;
  CUDA(cudaMallocHost(&pinned, 4));
  CUDA(cudaMallocManaged(&managed, 4));
  *pinned = *managed = 5;
  EXPECT(shared_sum == 7);
  bump<<<1, 32>>>(pinned);
  CUDA(cudaDeviceSynchronize());
  bump<<<1, 32>>>(managed);
  CUDA(cudaDeviceSynchronize());
  EXPECT(*pinned == 6 && *managed == 6 && shared_sum == 9);
  int host[4];
  CUDA(cudaMemcpyFromSymbol(host, counter, 16));
  EXPECT(host[0] == 17 && host[1] == 18 && host[2] == 19 && host[3] == 20);
  void* address;
  CUDA(cudaGetSymbolAddress(&address, counter));
  CUDA(cudaMemset(address, 0, 8));
  CUDA(cudaMemcpyFromSymbol(host, counter, 8, 4));
  EXPECT(host[0] == 0 && host[1] == 19);
  CUDA(cudaFreeHost(pinned));
  CUDA(cudaFree(managed));
}

static void pitched() {
  const int width = 100, height = 7;
  char* p;
  size_t pitch;
  CUDA(cudaMallocPitch(&p, &pitch, width, height));
  fill_rows<<<1, 32>>>(p, pitch, width, height);
  std::vector<char> h(width * height), g(width * height, 9);
  CUDA(cudaMemcpy2D(h.data(), width, p, pitch, width, height, cudaMemcpyDeviceToHost));
  for (int i = 0; i < width * height; ++i) EXPECT(h[i] == char(i));
  CUDA(cudaMemset2D(p + 10, pitch, 3, 20, height - 1));
  CUDA(cudaMemcpy2D(g.data(), width, p, pitch, width, height, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      EXPECT(g[y * width + x] == (x >= 10 && x < 30 && y < height - 1 ? 3 : char(y * width + x)));
  cudaExtent extent = make_cudaExtent(16, 4, 3);
  cudaPitchedPtr q;
  CUDA(cudaMalloc3D(&q, extent));
  std::vector<char> cube(16 * 4 * 3), back(16 * 4 * 3);
  for (size_t i = 0; i < cube.size(); ++i) cube[i] = char(i * 3);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(cube.data(), 16, 16, 4);
  copy.dstPtr = q;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemcpy3D(&copy));
  copy.srcPtr = q;
  copy.dstPtr = make_cudaPitchedPtr(back.data(), 16, 16, 4);
  copy.kind = cudaMemcpyDeviceToHost;
  CUDA(cudaMemcpy3D(&copy));
  EXPECT(cube == back);
}

static void pools() {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  cudaMemPool_t pool;
  CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  int *p, h = 0;
  CUDA(cudaMallocAsync(&p, 4, s));
  CUDA(cudaMemsetAsync(p, 1, 4, s));
  CUDA(cudaMemcpyAsync(&h, p, 4, cudaMemcpyDeviceToHost, s));
  CUDA(cudaFreeAsync(p, s));
  CUDA(cudaStreamSynchronize(s));
  EXPECT(h == 0x01010101);
  unsigned long long used = 99;
  CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used == 0);
}

int main() {
  flat();
  variables();
  pitched();
  pools();
  puts("ok");
}
