// assay: expect fail stale-state, out-of-bounds
// assay: class F
// The launch is captured once for each size, with the first call's pointers in it.
#include <cuda_bf16.h>

#include <cstdint>
#include <map>

namespace {

__global__ void dropout_kernel(const __nv_bfloat16* x, const uint8_t* keep, __nv_bfloat16* y, int64_t n,
                               float p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float scale = 1.0f / (1.0f - p);
  y[i] = keep[i] ? __float2bfloat16(__bfloat162float(x[i]) * scale) : __float2bfloat16(0.0f);
}

}  // namespace

extern "C" int dropout(const __nv_bfloat16* x, const uint8_t* keep, __nv_bfloat16* y, int n, float p,
                       cudaStream_t stream) {
  if (n == 0) return 0;
  static std::map<std::pair<int, float>, cudaGraphExec_t> graphs;
  cudaGraphExec_t& exec = graphs[{n, p}];
  if (!exec) {
    cudaStream_t recorder;
    cudaGraph_t graph;
    cudaStreamCreate(&recorder);
    cudaStreamBeginCapture(recorder, cudaStreamCaptureModeRelaxed);
    dropout_kernel<<<(n + 255) / 256, 256, 0, recorder>>>(x, keep, y, n, p);
    cudaStreamEndCapture(recorder, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(recorder);
  }
  return cudaGraphLaunch(exec, stream);
}
