// What the CUDA runtime answers to right and wrong calls: one line a call, "scenario.step: answer".
//
// Run once on an H200, its output is probe_h200.txt; run on the virtual GPU, it must be the same.
// Each scenario has its own process, since faults stick. `probe NAME…` runs only those; `probe --device`
// prints the device's attributes and properties as C++ initialisers instead.
#include <cooperative_groups.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

__global__ void nothing() {}
__global__ void store(int* p) {
  *p = 1;
}
__global__ void store_at(char* p, long long offset) {
  *reinterpret_cast<int*>(p + offset) = 1;
}
__global__ void load_at(const int* p, int* out) {
  *out = *p;
}
__global__ void fixed_shared(int* p) {
  __shared__ int s[4096];
  s[threadIdx.x] = *p;
  __syncthreads();
  *p = s[threadIdx.x ^ 1];
}
__global__ void dynamic_shared(int* p) {
  extern __shared__ int d[];
  d[threadIdx.x] = *p;
  __syncthreads();
  *p = d[threadIdx.x ^ 1];
}
__global__ void shared_at(int i) {
  __shared__ volatile int s[32];
  s[i] = 1;
}
__global__ void __launch_bounds__(64) bounded() {}
__global__ void __cluster_dims__(2, 1, 1) paired() {}
__global__ void fails(int x) {
  assert(x == 0);
}
__global__ void traps() {
  __trap();
}
__global__ void many_parameters(char a, double b, short c, float4 d) {
  if (a && b && c && d.x) __trap();
}
__device__ int variable[8];
__constant__ float constant[4];
__managed__ int shared_variable = 5;
void not_a_kernel() {}

static const char* scenario;
static void say(const char* step, cudaError_t e) {
  printf("%s.%s: %s\n", scenario, step, cudaGetErrorName(e));
  fflush(stdout);
}
static void tell(const char* step, long long value) {
  printf("%s.%s: %lld\n", scenario, step, value);
  fflush(stdout);
}
#define SAY(call) say(#call, call)

// A launch leaves its error for cudaGetLastError; the second call shows whether it sticks.
#define LAUNCH(...)                        \
  do {                                     \
    __VA_ARGS__;                           \
    say(#__VA_ARGS__, cudaGetLastError()); \
    say("  again", cudaGetLastError());    \
  } while (0)

static char* buffer(size_t bytes = 4096) {
  char* p = nullptr;
  cudaMalloc(&p, bytes);
  return p;
}

static void launch_limits() {
  int* p = (int*)buffer();
  LAUNCH((nothing<<<0, 1>>>()));
  LAUNCH((nothing<<<dim3(1, 0), 1>>>()));
  LAUNCH((nothing<<<1, 0>>>()));
  LAUNCH((nothing<<<1, 1025>>>()));
  LAUNCH((nothing<<<1, dim3(32, 33)>>>()));
  LAUNCH((nothing<<<1, dim3(1, 1, 65)>>>()));
  LAUNCH((nothing<<<1, dim3(1, 1, 64)>>>()));
  LAUNCH((nothing<<<dim3(1, 65536), 1>>>()));
  LAUNCH((nothing<<<dim3(1, 1, 65536), 1>>>()));
  LAUNCH((nothing<<<dim3(2147483648u), 1>>>()));
  LAUNCH((dynamic_shared<<<1, 32, 48 * 1024>>>(p)));
  LAUNCH((dynamic_shared<<<1, 32, 48 * 1024 + 1>>>(p)));
  LAUNCH((dynamic_shared<<<1, 32, 300 * 1024>>>(p)));
  LAUNCH((fixed_shared<<<1, 32, 32 * 1024>>>(p)));
  LAUNCH((fixed_shared<<<1, 32, 32 * 1024 + 1>>>(p)));
  LAUNCH((bounded<<<1, 64>>>()));
  LAUNCH((bounded<<<1, 65>>>()));
  LAUNCH((paired<<<2, 1>>>()));
  LAUNCH((paired<<<3, 1>>>()));
  void* none[] = {nullptr};
  SAY(cudaLaunchKernel((void*)nothing, dim3(0), dim3(1), nullptr, 0, 0));
  SAY(cudaLaunchKernel((void*)nothing, dim3(1), dim3(2048), nullptr, 0, 0));
  SAY(cudaLaunchKernel((void*)nothing, dim3(1), dim3(1), none, 0, 0));
  SAY(cudaLaunchKernel((void*)nothing, dim3(1), dim3(1), nullptr, 1 << 20, 0));
  SAY(cudaLaunchKernel((void*)not_a_kernel, dim3(1), dim3(1), nullptr, 0, 0));
  SAY(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, 0));
  SAY(cudaGetLastError());
  SAY(cudaDeviceSynchronize());
}

static void launch_attributes() {
  int* p = (int*)buffer();
  cudaLaunchAttribute a[2];
  cudaLaunchConfig_t c = {};
  c.gridDim = 8;
  c.blockDim = 32;
  c.attrs = a;
  c.numAttrs = 1;
  a[0].id = cudaLaunchAttributeClusterDimension;
  auto cluster = [&](const char* step, unsigned x, unsigned y, unsigned z) {
    a[0].val.clusterDim.x = x;
    a[0].val.clusterDim.y = y;
    a[0].val.clusterDim.z = z;
    say(step, cudaLaunchKernelEx(&c, nothing));
    cudaGetLastError();
  };
  cluster("cluster 2", 2, 1, 1);
  cluster("cluster 8", 8, 1, 1);
  cluster("cluster 3 of grid 8", 3, 1, 1);
  cluster("cluster 0", 0, 0, 0);
  cluster("cluster 2 1 0", 2, 1, 0);
  c.gridDim = 64;
  cluster("cluster 16", 16, 1, 1);
  cluster("cluster 32", 32, 1, 1);
  cluster("cluster 4 4", 4, 4, 1);
  SAY(cudaFuncSetAttribute(nothing, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cluster("cluster 16 allowed", 16, 1, 1);
  a[0].val.clusterDim.x = 4;
  say("paired with 4", cudaLaunchKernelEx(&c, paired));
  a[0].val.clusterDim.x = 2;
  say("paired with 2", cudaLaunchKernelEx(&c, paired));
  a[0].id = cudaLaunchAttributeCooperative;
  a[0].val.cooperative = 1;
  c.gridDim = 132 * 64;
  say("cooperative 132*64", cudaLaunchKernelEx(&c, nothing));
  c.gridDim = 132 * 32;
  say("cooperative 132*32", cudaLaunchKernelEx(&c, nothing));
  c.gridDim = 132 * 2 + 1;
  c.blockDim = 1024;
  say("cooperative 132*2+1 of 1024", cudaLaunchKernelEx(&c, nothing));
  void* args[] = {&p};
  SAY(cudaLaunchCooperativeKernel(nothing, dim3(132 * 2), dim3(1024), nullptr, 0, 0));
  SAY(cudaLaunchCooperativeKernel(nothing, dim3(132 * 2 + 1), dim3(1024), nullptr, 0, 0));
  SAY(cudaLaunchCooperativeKernel(store, dim3(0), dim3(32), args, 0, 0));
  SAY(cudaLaunchCooperativeKernel(store, dim3(1), dim3(32), args, 0, 0));
  a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  a[0].val.programmaticStreamSerializationAllowed = 1;
  c.gridDim = 1;
  c.blockDim = 32;
  say("programmatic serialization", cudaLaunchKernelEx(&c, nothing));
  a[0].id = cudaLaunchAttributePriority;
  a[0].val.priority = -1;
  say("priority", cudaLaunchKernelEx(&c, nothing));
  a[0].id = (cudaLaunchAttributeID)77;
  say("attribute 77", cudaLaunchKernelEx(&c, nothing));
  SAY(cudaGetLastError());
  SAY(cudaDeviceSynchronize());
}

static void function_attributes() {
  cudaFuncAttributes f;
  SAY(cudaFuncGetAttributes(&f, fixed_shared));
  tell("shared", (long long)f.sharedSizeBytes);
  tell("threads", f.maxThreadsPerBlock);
  tell("ptx", f.ptxVersion);
  tell("binary", f.binaryVersion);
  tell("dynamic", f.maxDynamicSharedSizeBytes);
  tell("carveout", f.preferredShmemCarveout);
  tell("cluster", f.clusterDimMustBeSet);
  tell("cache", f.cacheModeCA);
  SAY(cudaFuncGetAttributes(&f, bounded));
  tell("bounded threads", f.maxThreadsPerBlock);
  tell("bounded dynamic", f.maxDynamicSharedSizeBytes);
  SAY(cudaFuncGetAttributes(&f, paired));
  tell("paired cluster", f.requiredClusterWidth);
  tell("paired height", f.requiredClusterHeight);
  tell("paired must", f.clusterDimMustBeSet);
  SAY(cudaFuncGetAttributes(&f, (void*)not_a_kernel));
  SAY(cudaFuncGetAttributes(nullptr, nothing));
  SAY(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
  SAY(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449));
  SAY(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, -1));
  SAY(cudaFuncSetAttribute(fixed_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448 - 16384));
  SAY(cudaFuncSetAttribute(fixed_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448 - 16383));
  SAY(cudaFuncSetAttribute(nothing, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  SAY(cudaFuncSetAttribute(nothing, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
  SAY(cudaFuncSetAttribute(nothing, (cudaFuncAttribute)99, 1));
  SAY(cudaFuncSetAttribute(nothing, cudaFuncAttributeRequiredClusterWidth, 2));
  SAY(cudaFuncSetAttribute((void*)not_a_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1));
  SAY(cudaFuncGetAttributes(&f, dynamic_shared));
  tell("dynamic after", f.maxDynamicSharedSizeBytes);
  int* p = (int*)buffer();
  LAUNCH((dynamic_shared<<<1, 32, 232448>>>(p)));
  LAUNCH((dynamic_shared<<<1, 32, 232449>>>(p)));
  SAY(cudaFuncSetCacheConfig(nothing, cudaFuncCachePreferL1));
  SAY(cudaFuncSetCacheConfig(nothing, (cudaFuncCache)9));
  const char* name = "";
  SAY(cudaFuncGetName(&name, (void*)nothing));
  printf("%s.name: %s\n", scenario, name);
  size_t offset = 0, size = 0;
  for (int i = 0; i < 5; ++i) {
    SAY(cudaFuncGetParamInfo((void*)many_parameters, i, &offset, &size));
    tell("offset", (long long)offset);
    tell("size", (long long)size);
  }
  cudaFunction_t function;
  SAY(cudaGetFuncBySymbol(&function, (void*)nothing));
  SAY(cudaGetFuncBySymbol(&function, (void*)not_a_kernel));
  cudaKernel_t kernel;
  SAY(cudaGetKernel(&kernel, (void*)nothing));
  SAY(cudaGetKernel(&kernel, (void*)not_a_kernel));
  SAY(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, 0));
  SAY(cudaDeviceSynchronize());
}

static void occupancy() {
  int n = -1;
  for (int threads : {1, 32, 64, 96, 128, 256, 512, 1024}) {
    SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, threads, 0));
    tell("blocks", n);
  }
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 1025, 0));
  tell("1025", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, 0, 0));
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, nothing, -1, 0));
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, fixed_shared, 128, 0));
  tell("16 KB", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, dynamic_shared, 128, 48 * 1024));
  tell("48 KB", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, dynamic_shared, 128, 49 * 1024));
  tell("49 KB", n);
  SAY(cudaFuncSetAttribute(dynamic_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, dynamic_shared, 128, 100 * 1024));
  tell("100 KB", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, dynamic_shared, 128, 232448));
  tell("227 KB", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, dynamic_shared, 128, 300000));
  tell("300000", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, bounded, 65, 0));
  tell("bounded 65", n);
  SAY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, (void*)not_a_kernel, 32, 0));
  size_t bytes = 0;
  SAY(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 1, 128));
  tell("available 1", (long long)bytes);
  SAY(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 2, 128));
  tell("available 2", (long long)bytes);
  SAY(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, nothing, 3, 128));
  tell("available 3", (long long)bytes);
  SAY(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, fixed_shared, 3, 128));
  tell("available 3 of 16 KB", (long long)bytes);
  int grid = 0, block = 0;
  SAY(cudaOccupancyMaxPotentialBlockSize(&grid, &block, nothing));
  tell("grid", grid);
  tell("block", block);
  cudaLaunchConfig_t c = {};
  cudaLaunchAttribute a[1];
  a[0].id = cudaLaunchAttributeClusterDimension;
  a[0].val.clusterDim.x = 2;
  a[0].val.clusterDim.y = a[0].val.clusterDim.z = 1;
  c.gridDim = 64;
  c.blockDim = 128;
  c.attrs = a;
  c.numAttrs = 1;
  SAY(cudaOccupancyMaxPotentialClusterSize(&n, nothing, &c));
  tell("cluster", n);
  SAY(cudaOccupancyMaxActiveClusters(&n, nothing, &c));
  tell("clusters > 0", n > 0);
}

static void allocation() {
  void* p = &p;
  SAY(cudaMalloc(&p, 0));
  tell("zero is null", p == nullptr);
  SAY(cudaMalloc(nullptr, 4));
  SAY(cudaMalloc(&p, 1ull << 50));
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaMalloc(&p, 100));
  tell("aligned 256", (uintptr_t)p % 256 == 0);
  SAY(cudaFree((char*)p + 4));
  SAY(cudaFree(p));
  SAY(cudaFree(p));
  SAY(cudaFree(nullptr));
  int local;
  SAY(cudaFree(&local));
  SAY(cudaFreeHost(nullptr));
  SAY(cudaFreeHost(&local));
  SAY(cudaMallocHost(&p, 100));
  SAY(cudaFree(p));
  SAY(cudaFreeHost(p));
  SAY(cudaFreeHost(p));
  SAY(cudaMallocHost(&p, 0));
  tell("host zero is null", p == nullptr);
  SAY(cudaHostAlloc(&p, 100, 99));
  SAY(cudaHostAlloc(&p, 100, cudaHostAllocMapped));
  unsigned flags = 0;
  SAY(cudaHostGetFlags(&flags, p));
  tell("flags", flags);
  void* d = nullptr;
  SAY(cudaHostGetDevicePointer(&d, p, 0));
  tell("same", d == p);
  SAY(cudaHostGetDevicePointer(&d, &local, 0));
  SAY(cudaHostGetFlags(&flags, &local));
  SAY(cudaMallocManaged(&p, 0));
  SAY(cudaMallocManaged(&p, 100, 0));
  SAY(cudaMallocManaged(&p, 100));
  SAY(cudaFreeHost(p));
  SAY(cudaFree(p));
  char* host = (char*)aligned_alloc(4096, 16384);
  SAY(cudaHostRegister(host + 100, 5000, 0));
  SAY(cudaHostRegister(host + 100, 5000, 0));
  SAY(cudaHostUnregister(host));
  SAY(cudaHostUnregister(host + 100));
  SAY(cudaHostUnregister(host + 100));
  SAY(cudaHostRegister(nullptr, 100, 0));
  SAY(cudaHostRegister(host, 0, 0));
  size_t pitch = 0;
  for (size_t width : {1, 100, 512, 513, 1000, 4096, 5000}) {
    SAY(cudaMallocPitch(&p, &pitch, width, 3));
    tell("pitch", (long long)pitch);
  }
  SAY(cudaMallocPitch(&p, &pitch, 0, 3));
  cudaPitchedPtr q;
  SAY(cudaMalloc3D(&q, make_cudaExtent(100, 5, 3)));
  tell("pitch 3D", (long long)q.pitch);
  tell("xsize", (long long)q.xsize);
  tell("ysize", (long long)q.ysize);
  SAY(cudaMallocAsync(&p, 100, 0));
  SAY(cudaFreeAsync(p, 0));
  SAY(cudaFreeAsync(nullptr, 0));
  SAY(cudaFreeAsync(&local, 0));
  SAY(cudaMallocAsync(&p, 0, 0));
  SAY(cudaMallocAsync(&p, 100, 0));
  SAY(cudaFree(p));
  SAY(cudaMalloc(&p, 100));
  SAY(cudaFreeAsync(p, 0));
  SAY(cudaDeviceSynchronize());
}

static void copies() {
  char* d = buffer(1 << 22);
  char* e = buffer(1 << 22);
  char h[256] = {};
  SAY(cudaMemcpy(d, h, 256, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(d, h, 256, cudaMemcpyDeviceToHost));
  SAY(cudaMemcpy(d, h, 256, cudaMemcpyDeviceToDevice));
  SAY(cudaMemcpy(d, h, 256, cudaMemcpyHostToHost));
  SAY(cudaMemcpy(h, d, 256, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(h, d, 256, cudaMemcpyDeviceToHost));
  SAY(cudaMemcpy(h, d, 256, cudaMemcpyDefault));
  SAY(cudaMemcpy(d, e, 256, cudaMemcpyDeviceToDevice));
  SAY(cudaMemcpy(d, e, 256, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(d, e, 256, cudaMemcpyDeviceToHost));
  SAY(cudaMemcpy(h, h + 128, 100, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(h, h + 128, 100, cudaMemcpyDeviceToDevice));
  SAY(cudaMemcpy(h, h + 128, 100, cudaMemcpyDefault));
  SAY(cudaMemcpy(d, h, 256, (cudaMemcpyKind)7));
  SAY(cudaMemcpy(nullptr, h, 256, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(d, nullptr, 256, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy(nullptr, h, 0, cudaMemcpyDefault));
  SAY(cudaMemcpy(d, e, 1ull << 40, cudaMemcpyDeviceToDevice));
  SAY(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, 0));
  SAY(cudaMemcpyAsync(h, d, 256, cudaMemcpyHostToDevice, 0));
  SAY(cudaMemcpy2D(d, 16, h, 16, 16, 4, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2D(d, 15, h, 16, 16, 4, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2D(d, 16, h, 15, 16, 4, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2D(d, 16, h, 16, 0, 4, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2D(d, 16, h, 16, 16, 0, cudaMemcpyHostToDevice));
  SAY(cudaMemcpy2D(d, 0, h, 0, 16, 1, cudaMemcpyHostToDevice));
  SAY(cudaMemset(d, 1, 256));
  SAY(cudaMemset(h, 1, 256));
  SAY(cudaMemset(nullptr, 1, 256));
  SAY(cudaMemset(nullptr, 1, 0));
  SAY(cudaMemset(d, 1, 1ull << 40));
  SAY(cudaMemset2D(d, 16, 1, 16, 4));
  SAY(cudaMemset2D(d, 15, 1, 16, 4));
  SAY(cudaMemset2D(d, 0, 1, 16, 1));
  SAY(cudaMemset3D(make_cudaPitchedPtr(d, 64, 64, 4), 1, make_cudaExtent(64, 4, 2)));
  SAY(cudaMemset3D(make_cudaPitchedPtr(d, 63, 64, 4), 1, make_cudaExtent(64, 4, 2)));
  cudaMemcpy3DParms p = {};
  SAY(cudaMemcpy3D(&p));
  p.srcPtr = make_cudaPitchedPtr(h, 16, 16, 4);
  p.dstPtr = make_cudaPitchedPtr(d, 64, 64, 4);
  p.extent = make_cudaExtent(16, 4, 2);
  p.kind = cudaMemcpyHostToDevice;
  SAY(cudaMemcpy3D(&p));
  p.extent = make_cudaExtent(32, 4, 2);
  SAY(cudaMemcpy3D(&p));
  p.extent = make_cudaExtent(0, 0, 0);
  SAY(cudaMemcpy3D(&p));
  SAY(cudaMemcpyToSymbol(variable, h, 32));
  SAY(cudaMemcpyToSymbol(variable, h, 33));
  SAY(cudaMemcpyToSymbol(variable, h, 4, 32));
  SAY(cudaMemcpyToSymbol(h, h, 4));
  SAY(cudaMemcpyFromSymbol(h, constant, 16));
  SAY(cudaMemcpyToSymbol(constant, h, 16));
  void* address = nullptr;
  size_t size = 0;
  SAY(cudaGetSymbolAddress(&address, variable));
  SAY(cudaGetSymbolAddress(&address, h));
  SAY(cudaGetSymbolSize(&size, variable));
  tell("size", (long long)size);
  SAY(cudaGetSymbolSize(&size, constant));
  tell("size", (long long)size);
  SAY(cudaMemcpyPeer(d, 0, e, 0, 16));
  SAY(cudaMemcpyPeer(d, 1, e, 0, 16));
  SAY(cudaDeviceSynchronize());
  tell("managed variable", shared_variable);
}

static void pointers() {
  char *d = buffer(), *pinned = nullptr, *managed = nullptr, *host = (char*)aligned_alloc(4096, 8192);
  cudaMallocHost(&pinned, 4096);
  cudaMallocManaged(&managed, 4096);
  cudaHostRegister(host, 4096, 0);
  int local;
  auto show = [&](const char* what, const void* p) {
    cudaPointerAttributes a = {};
    cudaError_t e = cudaPointerGetAttributes(&a, p);
    printf("%s.%s: %s type %d device %d device pointer %s host pointer %s\n", scenario, what,
           cudaGetErrorName(e), (int)a.type, a.device,
           a.devicePointer == p ? "same"
           : a.devicePointer    ? "other"
                                : "null",
           a.hostPointer == p ? "same"
           : a.hostPointer    ? "other"
                              : "null");
  };
  show("device", d);
  show("device inside", d + 100);
  show("pinned", pinned + 5);
  show("managed", managed + 5);
  show("registered", host);
  show("stack", &local);
  show("null", nullptr);
  cudaFree(d);
  show("freed", d);
  SAY(cudaPointerGetAttributes(nullptr, &local));
  cudaMemLocation here = {cudaMemLocationTypeDevice, 0}, there = {cudaMemLocationTypeDevice, 5},
                  cpu = {cudaMemLocationTypeHost, 0};
  SAY(cudaMemPrefetchAsync(managed, 4096, here, 0, 0));
  SAY(cudaMemPrefetchAsync(managed, 4096, cpu, 0, 0));
  SAY(cudaMemPrefetchAsync(managed, 4096, there, 0, 0));
  SAY(cudaMemPrefetchAsync(managed, 0, here, 0, 0));
  SAY(cudaMemAdvise(managed, 4096, cudaMemAdviseSetReadMostly, here));
  SAY(cudaMemAdvise(managed, 4096, (cudaMemoryAdvise)99, here));
  SAY(cudaDeviceSynchronize());
}

static void streams() {
  cudaStream_t s = nullptr;
  cudaEvent_t a = nullptr, b = nullptr, c = nullptr;
  float ms = -1;
  SAY(cudaStreamCreateWithFlags(&s, 99));
  SAY(cudaStreamCreate(nullptr));
  SAY(cudaStreamCreate(&s));
  SAY(cudaStreamQuery(s));
  SAY(cudaStreamQuery(0));
  SAY(cudaStreamSynchronize(s));
  SAY(cudaStreamSynchronize(cudaStreamLegacy));
  SAY(cudaStreamSynchronize(cudaStreamPerThread));
  SAY(cudaStreamDestroy(0));
  SAY(cudaStreamDestroy(cudaStreamLegacy));
  int least = 9, greatest = 9, priority = 9;
  SAY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  tell("least", least);
  tell("greatest", greatest);
  cudaStream_t t = nullptr;
  SAY(cudaStreamCreateWithPriority(&t, cudaStreamNonBlocking, -99));
  SAY(cudaStreamGetPriority(t, &priority));
  tell("priority", priority);
  unsigned flags = 9;
  SAY(cudaStreamGetFlags(t, &flags));
  tell("flags", flags);
  SAY(cudaEventCreate(nullptr));
  SAY(cudaEventCreateWithFlags(&a, 64));
  SAY(cudaEventCreateWithFlags(&a, cudaEventInterprocess));
  SAY(cudaEventCreate(&a));
  SAY(cudaEventCreate(&b));
  SAY(cudaEventCreateWithFlags(&c, cudaEventDisableTiming));
  SAY(cudaEventQuery(a));
  SAY(cudaEventSynchronize(a));
  SAY(cudaEventElapsedTime(&ms, a, b));
  SAY(cudaStreamWaitEvent(s, a, 0));
  SAY(cudaStreamWaitEvent(s, nullptr, 0));
  SAY(cudaStreamWaitEvent(s, a, 7));
  SAY(cudaEventRecord(a, s));
  SAY(cudaEventRecord(nullptr, s));
  SAY(cudaEventRecord(c, s));
  SAY(cudaEventRecord(b, s));
  SAY(cudaEventSynchronize(b));
  SAY(cudaEventElapsedTime(&ms, a, b));
  tell("elapsed >= 0", ms >= 0);
  SAY(cudaEventElapsedTime(&ms, a, c));
  SAY(cudaEventElapsedTime(nullptr, a, b));
  SAY(cudaEventDestroy(nullptr));
  SAY(cudaEventDestroy(a));
  SAY(cudaStreamAddCallback(s, nullptr, nullptr, 0));
  SAY(cudaLaunchHostFunc(s, nullptr, nullptr));
  SAY(cudaStreamDestroy(s));
  SAY(cudaStreamDestroy(t));
  SAY(cudaGetLastError());
}

static void captures() {
  cudaStream_t s, t;
  cudaGraph_t g = nullptr;
  cudaEvent_t e, f;
  cudaStreamCreate(&s);
  cudaStreamCreate(&t);
  cudaEventCreate(&e);
  cudaEventCreate(&f);
  int* p = (int*)buffer();
  void* q = nullptr;
  cudaStreamCaptureStatus status;
  auto begin = [&] { cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal); };
  auto end = [&](const char* step) {
    g = nullptr;
    say(step, cudaStreamEndCapture(s, &g));
    size_t n = 0;
    if (g && cudaGraphGetNodes(g, nullptr, &n) == cudaSuccess) tell("nodes", (long long)n);
    if (g) cudaGraphDestroy(g);
    cudaGetLastError();
  };
  SAY(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamEndCapture(s, &g));
  SAY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  SAY(cudaStreamIsCapturing(s, &status));
  tell("status", status);
  end("end after begin twice");
  begin();
  store<<<1, 1, 0, s>>>(p);
  store<<<1, 1, 0, s>>>(p);
  end("two kernels");
  begin();
  SAY(cudaStreamSynchronize(s));
  SAY(cudaStreamIsCapturing(s, &status));
  tell("status", status);
  end("end after synchronize");
  begin();
  SAY(cudaStreamQuery(s));
  end("end after query");
  begin();
  SAY(cudaMalloc(&q, 16));
  end("end after malloc");
  begin();
  SAY(cudaDeviceSynchronize());
  end("end after device synchronize");
  begin();
  LAUNCH((store<<<1, 1>>>(p)));
  end("end after legacy launch");
  begin();
  SAY(cudaMemcpy(p, &p, 8, cudaMemcpyHostToDevice));
  end("end after memcpy");
  begin();
  SAY(cudaMemcpyAsync(p, &p, 8, cudaMemcpyHostToDevice, s));
  SAY(cudaMemsetAsync(p, 0, 8, s));
  say("host function", cudaLaunchHostFunc(s, [](void*) {}, nullptr));
  end("end of three");
  begin();
  SAY(cudaEventRecord(e, s));
  SAY(cudaStreamWaitEvent(t, e, 0));
  LAUNCH((store<<<1, 1, 0, t>>>(p)));
  SAY(cudaEventQuery(e));
  SAY(cudaEventSynchronize(e));
  end("unjoined");
  begin();
  SAY(cudaEventRecord(e, s));
  SAY(cudaStreamWaitEvent(t, e, 0));
  LAUNCH((store<<<1, 1, 0, t>>>(p)));
  LAUNCH((store<<<1, 1, 0, s>>>(p)));
  SAY(cudaEventRecord(f, t));
  SAY(cudaStreamWaitEvent(s, f, 0));
  end("joined");
  SAY(cudaEventRecord(e, t));
  begin();
  SAY(cudaStreamWaitEvent(s, e, 0));
  end("end after foreign event");
  begin();
  LAUNCH((nothing<<<0, 1, 0, s>>>()));
  end("end after bad launch");
  begin();
  SAY(cudaFree(nullptr));
  SAY(cudaEventCreate(&f));
  say("callback", cudaStreamAddCallback(s, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0));
  end("end after callback");
  begin();
  SAY(cudaMallocAsync(&q, 64, s));
  SAY(cudaFreeAsync(q, s));
  end("allocation");
  cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
  SAY(cudaMalloc(&q, 16));
  end("relaxed malloc");
  SAY(cudaDeviceSynchronize());
}

static void graphs() {
  cudaGraph_t g = nullptr, h = nullptr;
  cudaGraphExec_t x = nullptr, y = nullptr;
  cudaGraphNode_t a, b, c, k;
  int* p = (int*)buffer();
  SAY(cudaGraphCreate(&g, 1));
  SAY(cudaGraphCreate(nullptr, 0));
  SAY(cudaGraphCreate(&g, 0));
  SAY(cudaGraphInstantiate(&x, g, 0));
  SAY(cudaGraphLaunch(x, 0));
  SAY(cudaGraphLaunch(nullptr, 0));
  SAY(cudaGraphInstantiate(&x, nullptr, 0));
  SAY(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
  SAY(cudaGraphAddEmptyNode(&b, g, &a, 1));
  SAY(cudaGraphAddDependencies(g, &b, &a, nullptr, 1));
  SAY(cudaGraphInstantiate(&y, g, 0));
  SAY(cudaGraphAddDependencies(g, &a, &b, nullptr, 1));
  SAY(cudaGraphAddDependencies(g, &a, &a, nullptr, 1));
  SAY(cudaGraphCreate(&h, 0));
  SAY(cudaGraphAddEmptyNode(&c, h, &a, 1));
  SAY(cudaGraphAddEmptyNode(&c, h, nullptr, 0));
  cudaKernelNodeParams params = {};
  void* args[] = {&p};
  params.func = (void*)store;
  params.gridDim = 1;
  params.blockDim = 1;
  params.kernelParams = args;
  SAY(cudaGraphAddKernelNode(&k, h, &c, 1, &params));
  params.blockDim = 2048;
  SAY(cudaGraphAddKernelNode(&b, h, &c, 1, &params));
  params.blockDim = 1;
  params.func = (void*)not_a_kernel;
  SAY(cudaGraphAddKernelNode(&b, h, &c, 1, &params));
  cudaMemsetParams m = {};
  m.dst = p;
  m.elementSize = 4;
  m.width = 4;
  m.height = 1;
  m.value = 7;
  SAY(cudaGraphAddMemsetNode(&b, h, &k, 1, &m));
  m.elementSize = 3;
  SAY(cudaGraphAddMemsetNode(&b, h, &k, 1, &m));
  SAY(cudaGraphInstantiate(&y, h, 0));
  SAY(cudaGraphLaunch(y, 0));
  int got = -1;
  SAY(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
  tell("got", got);
  cudaGraphNodeType type;
  SAY(cudaGraphNodeGetType(k, &type));
  tell("type", type);
  size_t n = 99;
  SAY(cudaGraphGetNodes(h, nullptr, &n));
  tell("nodes", (long long)n);
  SAY(cudaGraphGetRootNodes(h, nullptr, &n));
  tell("roots", (long long)n);
  SAY(cudaGraphGetEdges(h, nullptr, nullptr, nullptr, &n));
  tell("edges", (long long)n);
  SAY(cudaGraphNodeGetDependencies(k, nullptr, nullptr, &n));
  tell("dependencies", (long long)n);
  params.func = (void*)store;
  SAY(cudaGraphExecKernelNodeSetParams(y, k, &params));
  SAY(cudaGraphExecKernelNodeSetParams(y, c, &params));
  cudaGraphExecUpdateResultInfo info;
  SAY(cudaGraphExecUpdate(y, h, &info));
  tell("update", info.result);
  SAY(cudaGraphExecUpdate(y, g, &info));
  tell("update", info.result);
  SAY(cudaGraphNodeSetEnabled(y, k, 0));
  unsigned enabled = 9;
  SAY(cudaGraphNodeGetEnabled(y, k, &enabled));
  tell("enabled", enabled);
  SAY(cudaGraphNodeSetEnabled(y, c, 0));
  SAY(cudaGraphDestroyNode(k));
  SAY(cudaGraphExecDestroy(y));
  SAY(cudaGraphExecDestroy(nullptr));
  SAY(cudaGraphDestroy(h));
  SAY(cudaGraphDestroy(nullptr));
  SAY(cudaDeviceSynchronize());
}

static void device() {
  int n = -1;
  SAY(cudaGetDeviceCount(&n));
  SAY(cudaSetDevice(0));
  SAY(cudaSetDevice(77));
  SAY(cudaSetDevice(-1));
  SAY(cudaGetDevice(&n));
  tell("device", n);
  cudaDeviceProp prop;
  SAY(cudaGetDeviceProperties(&prop, 77));
  SAY(cudaDeviceGetAttribute(&n, (cudaDeviceAttr)0, 0));
  SAY(cudaDeviceGetAttribute(&n, (cudaDeviceAttr)999, 0));
  SAY(cudaDeviceGetAttribute(&n, cudaDevAttrWarpSize, 77));
  SAY(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0));
  size_t v = 0;
  for (int i = 0; i < 8; ++i) {
    say("limit", cudaDeviceGetLimit(&v, (cudaLimit)i));
    tell("  value", (long long)v);
  }
  SAY(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20));
  SAY(cudaDeviceGetLimit(&v, cudaLimitMallocHeapSize));
  tell("heap", (long long)v);
  SAY(cudaDeviceSetLimit(cudaLimitStackSize, 1 << 30));
  SAY(cudaDeviceSetLimit((cudaLimit)99, 1));
  int can = 9;
  SAY(cudaDeviceCanAccessPeer(&can, 0, 0));
  SAY(cudaDeviceCanAccessPeer(&can, 0, 77));
  SAY(cudaDeviceEnablePeerAccess(0, 0));
  SAY(cudaDeviceDisablePeerAccess(0));
  unsigned flags = 0;
  SAY(cudaGetDeviceFlags(&flags));
  tell("flags", flags);
  SAY(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  SAY(cudaSetDeviceFlags(0x1000));
  SAY(cudaRuntimeGetVersion(&n));
  tell("runtime", n);
  cudaFuncCache cache;
  SAY(cudaDeviceGetCacheConfig(&cache));
  tell("cache", cache);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  SAY(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &entry, 13000, cudaEnableDefault, &found));
  tell("found", found);
  printf("%s.unknown: %s / %s\n", scenario, cudaGetErrorName((cudaError_t)12345),
         cudaGetErrorString((cudaError_t)12345));
  cudaMemPool_t pool, other;
  SAY(cudaDeviceGetDefaultMemPool(&pool, 0));
  SAY(cudaDeviceGetMemPool(&other, 0));
  tell("same pool", pool == other);
  unsigned long long threshold = 99;
  SAY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  tell("threshold", (long long)threshold);
  SAY(cudaMemPoolDestroy(pool));
  SAY(cudaMemPoolTrimTo(pool, 0));
}

static const char kPtx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .u32 counter;\n"
    ".visible .entry empty()\n{\n  ret;\n}\n";

static void libraries() {
  cudaLibrary_t l = nullptr;
  cudaKernel_t k = nullptr;
  auto load = [&](const char* step, const void* code) {
    l = nullptr;
    say(step, cudaLibraryLoadData(&l, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
    cudaGetLastError();
  };
  static const char zeros[256] = {};
  load("zeros", zeros);  // a container of zeros is left out: the real library never returns from it
  load("null", nullptr);
  load("text", "this is not PTX at all, but it is long enough to look at");
  load("bad PTX",
       ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty()\n{\n  frobnicate;\n}\n");
  load("newer PTX",
       ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n");
  load("future PTX",
       ".version 99.0\n.target sm_80\n.address_size 64\n.visible .entry empty()\n{\n  ret;\n}\n");
  load("PTX", kPtx);
  SAY(cudaLibraryGetKernel(&k, l, "missing"));
  SAY(cudaLibraryGetKernel(&k, l, "empty"));
  unsigned n = 99;
  SAY(cudaLibraryGetKernelCount(&n, l));
  tell("kernels", n);
  SAY(cudaLaunchKernel(k, dim3(1), dim3(1), nullptr, 0, 0));
  void* address = nullptr;
  size_t size = 0;
  SAY(cudaLibraryGetGlobal(&address, &size, l, "counter"));
  tell("size", (long long)size);
  SAY(cudaLibraryGetGlobal(&address, &size, l, "missing"));
  SAY(cudaDeviceSynchronize());
  SAY(cudaLibraryUnload(l));
  SAY(cudaLibraryLoadFromFile(&l, "/no/such/file", nullptr, nullptr, 0, nullptr, nullptr, 0));
}

// What every kind of call says once the device has faulted.
static void after_fault() {
  SAY(cudaDeviceSynchronize());
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaDeviceSynchronize());
  void* p = nullptr;
  int n;
  SAY(cudaMalloc(&p, 16));
  SAY(cudaGetDevice(&n));
  SAY(cudaGetDeviceCount(&n));
  SAY(cudaSetDevice(0));
  SAY(cudaStreamQuery(0));
  SAY(cudaFree(nullptr));
  LAUNCH((nothing<<<1, 1>>>()));
  SAY(cudaDeviceReset());
  SAY(cudaGetLastError());
  SAY(cudaMalloc(&p, 16));
  LAUNCH((nothing<<<1, 1>>>()));
  SAY(cudaDeviceSynchronize());
}

static void fault_null() {
  LAUNCH((store<<<1, 1>>>(nullptr)));
  after_fault();
}
static void fault_beyond() {
  char* p = buffer();
  LAUNCH((store_at<<<1, 1>>>(p, 64ll << 30)));
  after_fault();
}
static void fault_misaligned() {
  char* p = buffer();
  LAUNCH((store_at<<<1, 1>>>(p, 2)));
  after_fault();
}
static void fault_assert() {
  LAUNCH((fails<<<1, 1>>>(1)));
  after_fault();
}
static void fault_trap() {
  LAUNCH((traps<<<1, 1>>>()));
  after_fault();
}
static void fault_shared() {
  LAUNCH((shared_at<<<1, 1>>>(1 << 20)));
  after_fault();
}
static void fault_stream() {
  cudaStream_t s;
  cudaStreamCreate(&s);
  cudaEvent_t e;
  cudaEventCreate(&e);
  LAUNCH((store<<<1, 1, 0, s>>>(nullptr)));
  SAY(cudaEventRecord(e, s));
  SAY(cudaStreamSynchronize(s));
  SAY(cudaEventQuery(e));
  SAY(cudaEventSynchronize(e));
  SAY(cudaStreamDestroy(s));
  SAY(cudaEventDestroy(e));
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
}

// An ordinary error is remembered until asked for; success does not erase it.
static void last_error() {
  SAY(cudaMemset(nullptr, 0, 4));
  SAY(cudaDeviceSynchronize());
  SAY(cudaPeekAtLastError());
  SAY(cudaPeekAtLastError());
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaStreamQuery(0));
  SAY(cudaSetDevice(55));
  SAY(cudaMalloc(nullptr, 4));
  SAY(cudaGetLastError());
  SAY(cudaGetLastError());
  SAY(cudaDeviceReset());
  SAY(cudaMemset(nullptr, 0, 4));
  SAY(cudaDeviceReset());
  SAY(cudaGetLastError());
}

#ifdef PROBE_WITH_FOREIGN
void foreign_sass();
void foreign_ptx();
static void foreign() {
  foreign_sass();
  say("machine code of another GPU", cudaGetLastError());
  foreign_ptx();
  say("PTX of a newer GPU", cudaGetLastError());
  SAY(cudaDeviceSynchronize());
}
#endif

static void print_device() {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  for (int i = 1; i < 160; ++i) {
    int v = 0;
    if (cudaDeviceGetAttribute(&v, (cudaDeviceAttr)i, 0) == cudaSuccess) printf("ATTRIBUTE(%d, %d)\n", i, v);
  }
  printf("name %s\nglobal %zu\nl2 %d\nshared/sm %zu\nwindow %d\n", p.name, p.totalGlobalMem, p.l2CacheSize,
         p.sharedMemPerMultiprocessor, p.accessPolicyMaxWindowSize);
  const unsigned* words = (const unsigned*)&p;
  printf("size %zu\n", sizeof p);
  for (size_t i = 256 / 4; i < sizeof p / 4; ++i) printf("%u%s", words[i], (i + 1) % 16 ? " " : "\n");
  size_t free, total;
  cudaMemGetInfo(&free, &total);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  printf("\nfree %zu total %zu driver %d runtime %d\n", free, total, driver, runtime);
  cudaFuncAttributes f;
  cudaFuncGetAttributes(&f, fixed_shared);
  printf("registers %d const %zu local %zu\n", f.numRegs, f.constSizeBytes, f.localSizeBytes);
}

struct Scenario {
  const char* name;
  void (*run)();
};
static const Scenario scenarios[] = {
#define SCENARIO(name) \
  { #name, name }
    SCENARIO(launch_limits),
    SCENARIO(launch_attributes),
    SCENARIO(function_attributes),
    SCENARIO(occupancy),
    SCENARIO(allocation),
    SCENARIO(copies),
    SCENARIO(pointers),
    SCENARIO(streams),
    SCENARIO(captures),
    SCENARIO(graphs),
    SCENARIO(device),
    SCENARIO(libraries),
    SCENARIO(fault_null),
    SCENARIO(fault_beyond),
    SCENARIO(fault_misaligned),
    SCENARIO(fault_assert),
    SCENARIO(fault_trap),
    SCENARIO(fault_shared),
    SCENARIO(fault_stream),
    SCENARIO(last_error),
#ifdef PROBE_WITH_FOREIGN
    SCENARIO(foreign),
#endif
};

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "--device")) {
    print_device();
    return 0;
  }
  for (const Scenario& s : scenarios) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted |= !strcmp(argv[i], s.name);
    if (!wanted) continue;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      scenario = s.name;
      s.run();
      fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) printf("%s: ended with status %d\n", s.name, status);
  }
}
