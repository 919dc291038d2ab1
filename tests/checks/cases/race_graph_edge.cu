// A graph without the edge from its producer to its consumer.
// wrong: data-race
// right:
__global__ void produce(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void consume(const int* x, int* y) { y[threadIdx.x] = x[31 - threadIdx.x]; }
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  void* first[] = {&x};
  void* second[] = {&x, &y};
  cudaKernelNodeParams p{};
  p.func = (void*)produce;
  p.gridDim = dim3(1);
  p.blockDim = dim3(32);
  p.kernelParams = first;
  cudaGraphNode_t a, b;
  cudaGraphAddKernelNode(&a, graph, nullptr, 0, &p);
  p.func = (void*)consume;
  p.kernelParams = second;
  cudaGraphAddKernelNode(&b, graph, &a, wrong ? 0 : 1, &p);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, 0);
  cudaDeviceSynchronize();
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaFree(y);
  finish(x);
}
