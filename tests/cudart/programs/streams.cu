// The order that streams, events, callbacks and graphs promise.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

__global__ void append(int* log, int* count, int value) {
  log[atomicAdd(count, 1)] = value;
}
__global__ void wait_for(volatile int* flag, int* done) {
  while (*flag == 0) {
  }
  *done = 1;
}
__global__ void raise_flag(volatile int* flag) {
  *flag = 1;
}
__global__ void scale(float* x, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}

static int *entries, *count;
static std::vector<int> log_now() {
  int n;
  CUDA(cudaMemcpy(&n, count, 4, cudaMemcpyDeviceToHost));
  std::vector<int> out(n);
  CUDA(cudaMemcpy(out.data(), entries, n * 4, cudaMemcpyDeviceToHost));
  CUDA(cudaMemset(count, 0, 4));
  return out;
}

static void events() {
  cudaStream_t a, b;
  cudaEvent_t e;
  CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  CUDA(cudaEventCreate(&e));
  CUDA(cudaDeviceSynchronize());
  append<<<1, 1, 0, a>>>(entries, count, 1);
  append<<<1, 1, 0, a>>>(entries, count, 2);
  CUDA(cudaEventRecord(e, a));
  append<<<1, 1, 0, a>>>(entries, count, 3);
  CUDA(cudaStreamWaitEvent(b, e, 0));
  append<<<1, 1, 0, b>>>(entries, count, 4);
  CUDA(cudaDeviceSynchronize());
  auto log = log_now();
  auto at = [&](int v) { return std::find(log.begin(), log.end(), v) - log.begin(); };
  EXPECT(log.size() == 4 && at(1) < at(2) && at(2) < at(3) && at(2) < at(4));
}

// The default stream waits for blocking streams, and they for it.
static void legacy() {
  cudaStream_t a, b;
  CUDA(cudaStreamCreate(&a));
  CUDA(cudaStreamCreate(&b));
  append<<<1, 1, 0, a>>>(entries, count, 1);
  append<<<1, 1>>>(entries, count, 2);
  append<<<1, 1, 0, b>>>(entries, count, 3);
  append<<<1, 1>>>(entries, count, 4);
  EXPECT((log_now() == std::vector<int>{1, 2, 3, 4}));
}

// Two kernels under way together: one waits for what the other writes.
static void concurrent() {
  cudaStream_t a, b;
  CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  int *flag, *done, got = 0;
  CUDA(cudaMalloc(&flag, 4));
  CUDA(cudaMalloc(&done, 4));
  CUDA(cudaMemset(flag, 0, 4));
  CUDA(cudaDeviceSynchronize());
  wait_for<<<1, 1, 0, a>>>(flag, done);
  raise_flag<<<1, 1, 0, b>>>(flag);
  CUDA(cudaStreamSynchronize(a));
  CUDA(cudaMemcpy(&got, done, 4, cudaMemcpyDeviceToHost));
  EXPECT(got == 1);
}

// The host watches pinned memory without calling anything; the device must go on by itself.
static void silent_host() {
  int *flag, *done;
  CUDA(cudaHostAlloc(&flag, 4, cudaHostAllocMapped));
  CUDA(cudaHostAlloc(&done, 4, cudaHostAllocMapped));
  *flag = *done = 0;
  wait_for<<<1, 1>>>(flag, done);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT(*(volatile int*)done == 0);
  *(volatile int*)flag = 1;
  while (*(volatile int*)done == 0) {
  }
  CUDA(cudaDeviceSynchronize());
}

static void callbacks() {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  std::atomic<int> calls{0};
  append<<<1, 1, 0, s>>>(entries, count, 1);
  CUDA(cudaLaunchHostFunc(
      s, [](void* p) { ++*static_cast<std::atomic<int>*>(p); }, &calls));
  CUDA(cudaStreamAddCallback(
      s,
      [](cudaStream_t, cudaError_t e, void* p) {
        *static_cast<std::atomic<int>*>(p) += e == cudaSuccess ? 10 : 100;
      },
      &calls, 0));
  CUDA(cudaStreamSynchronize(s));
  EXPECT(calls == 11);
  while (cudaStreamQuery(s) == cudaErrorNotReady) {
  }
  EXPECT(log_now().size() == 1);
}

// A pageable source is read at the call; a pinned one when its turn comes.
static void asynchronous_copies() {
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  int *device, pageable = 1, got = 0, *pinned, *flag;
  CUDA(cudaMalloc(&device, 4));
  CUDA(cudaMallocHost(&pinned, 4));
  CUDA(cudaMallocHost(&flag, 4));
  *flag = 0;
  wait_for<<<1, 1, 0, s>>>(flag, device);
  CUDA(cudaMemcpyAsync(device, &pageable, 4, cudaMemcpyHostToDevice, s));
  pageable = 2;
  *flag = 1;
  CUDA(cudaMemcpyAsync(&got, device, 4, cudaMemcpyDeviceToHost, s));
  EXPECT(got == 1);
  *flag = 0;
  *pinned = 5;
  wait_for<<<1, 1, 0, s>>>(flag, device);
  CUDA(cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, s));
  *pinned = 6;
  *(volatile int*)flag = 1;
  CUDA(cudaMemcpyAsync(&got, device, 4, cudaMemcpyDeviceToHost, s));
  EXPECT(got == 6);
}

static void captured_graph() {
  const int n = 1000;
  float *x, h[n];
  CUDA(cudaMalloc(&x, n * 4));
  for (int i = 0; i < n; ++i) h[i] = i;
  CUDA(cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice));
  cudaStream_t s, t;
  cudaEvent_t fork_event, join;
  CUDA(cudaStreamCreate(&s));
  CUDA(cudaStreamCreate(&t));
  CUDA(cudaEventCreate(&fork_event));
  CUDA(cudaEventCreate(&join));
  cudaGraph_t g;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  scale<<<4, 256, 0, s>>>(x, n / 2, 2);
  CUDA(cudaEventRecord(fork_event, s));
  CUDA(cudaStreamWaitEvent(t, fork_event, 0));
  scale<<<4, 256, 0, t>>>(x, n / 2, 3);
  scale<<<4, 256, 0, s>>>(x + n / 2, n / 2, 5);
  CUDA(cudaEventRecord(join, t));
  CUDA(cudaStreamWaitEvent(s, join, 0));
  CUDA(cudaStreamEndCapture(s, &g));
  CUDA(cudaGraphInstantiate(&exec, g, 0));
  float first;
  CUDA(cudaMemcpy(&first, x + 1, 4, cudaMemcpyDeviceToHost));
  EXPECT(first == 1);
  for (int i = 0; i < 3; ++i) CUDA(cudaGraphLaunch(exec, s));
  CUDA(cudaStreamSynchronize(s));
  float out[n];
  CUDA(cudaMemcpy(out, x, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) EXPECT(out[i] == (i < n / 2 ? 216.f : 125.f) * i);
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(g));
}

static void built_graph() {
  cudaGraph_t g, child;
  cudaGraphExec_t exec;
  cudaGraphNode_t zero, one, two, host, sub;
  CUDA(cudaGraphCreate(&g, 0));
  CUDA(cudaGraphCreate(&child, 0));
  cudaMemsetParams m = {};
  m.dst = count;
  m.elementSize = 4;
  m.width = m.height = 1;
  CUDA(cudaGraphAddMemsetNode(&zero, g, nullptr, 0, &m));
  int value = 1;
  void* args[] = {&entries, &count, &value};
  cudaKernelNodeParams k = {};
  k.func = (void*)append;
  k.gridDim = k.blockDim = 1;
  k.kernelParams = args;
  CUDA(cudaGraphAddKernelNode(&one, g, &zero, 1, &k));
  value = 2;
  CUDA(cudaGraphAddKernelNode(&two, child, nullptr, 0, &k));
  CUDA(cudaGraphAddChildGraphNode(&sub, g, &one, 1, child));
  static int called = 0;
  cudaHostNodeParams hp = {[](void* p) { ++*static_cast<int*>(p); }, &called};
  CUDA(cudaGraphAddHostNode(&host, g, &sub, 1, &hp));
  CUDA(cudaGraphInstantiate(&exec, g, 0));
  CUDA(cudaGraphLaunch(exec, 0));
  EXPECT((log_now() == std::vector<int>{1, 2}));
  EXPECT(called == 1);
  value = 9;
  CUDA(cudaGraphExecKernelNodeSetParams(exec, one, &k));
  CUDA(cudaGraphLaunch(exec, 0));
  EXPECT((log_now() == std::vector<int>{9, 2}));
  cudaKernelNodeParams read;
  CUDA(cudaGraphKernelNodeGetParams(one, &read));
  EXPECT(read.func == (void*)append && *(int*)read.kernelParams[2] == 1);
}

static void timing() {
  cudaEvent_t a, b;
  CUDA(cudaEventCreate(&a));
  CUDA(cudaEventCreate(&b));
  float* x;
  CUDA(cudaMalloc(&x, 1 << 20));
  CUDA(cudaEventRecord(a));
  CUDA(cudaMemset(x, 0, 1 << 20));
  scale<<<1024, 256>>>(x, 1 << 18, 2);
  CUDA(cudaEventRecord(b));
  CUDA(cudaEventSynchronize(b));
  float ms = -1;
  CUDA(cudaEventElapsedTime(&ms, a, b));
  EXPECT(ms > 0 && ms < 60000);
}

static void host_threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      const int n = 1000;
      float *x, h[n];
      for (int i = 0; i < n; ++i) h[i] = 1;
      CUDA(cudaMalloc(&x, n * 4));
      CUDA(cudaMemcpyAsync(x, h, n * 4, cudaMemcpyHostToDevice, cudaStreamPerThread));
      for (int i = 0; i < 10; ++i) scale<<<4, 256, 0, cudaStreamPerThread>>>(x, n, 2);
      CUDA(cudaMemcpyAsync(h, x, n * 4, cudaMemcpyDeviceToHost, cudaStreamPerThread));
      CUDA(cudaStreamSynchronize(cudaStreamPerThread));
      for (int i = 0; i < n; ++i) EXPECT(h[i] == 1024);
      CUDA(cudaFree(x));
    });
  for (auto& thread : threads) thread.join();
}

int main() {
  CUDA(cudaMalloc(&entries, 4096));
  CUDA(cudaMalloc(&count, 4));
  CUDA(cudaMemset(count, 0, 4));
  events();
  legacy();
  concurrent();
  silent_host();
  callbacks();
  asynchronous_copies();
  captured_graph();
  built_graph();
  timing();
  host_threads();
  puts("ok");
}
