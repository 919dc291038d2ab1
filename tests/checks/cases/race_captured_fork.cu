// A captured stream forks: the side waits for an event, which must stand behind the kernel it needs.
// wrong: data-race
// right:
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void twice(const int* x, int* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64), *z = device_array(64);
  cudaStream_t main, side;
  cudaEvent_t fork, join;
  cudaStreamCreate(&main);
  cudaStreamCreate(&side);
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(main, cudaStreamCaptureModeGlobal);
  if (wrong) cudaEventRecord(fork, main);
  fill<<<1, 64, 0, main>>>(x);
  if (!wrong) cudaEventRecord(fork, main);
  cudaStreamWaitEvent(side, fork, 0);
  twice<<<1, 64, 0, side>>>(x, y);
  twice<<<1, 64, 0, main>>>(x, z);
  cudaEventRecord(join, side);
  cudaStreamWaitEvent(main, join, 0);
  cudaStreamEndCapture(main, &graph);
  cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0);
  cudaGraphLaunch(exec, main);
  cudaGraphLaunch(exec, main);
  cudaStreamSynchronize(main);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaStreamDestroy(main);
  cudaStreamDestroy(side);
  cudaFree(x);
  cudaFree(y);
  cudaFree(z);
}
