// Blocks add their part of a sum in turn, by a semaphore; without a fence the parts are not handed on.
// wrong: data-race
// right:
__global__ void split(float* c, int* turn, bool wrong) {
  const float part = threadIdx.x + blockIdx.x;
  if (threadIdx.x == 0)
    while (*(volatile int*)turn != (int)blockIdx.x) {
    }
  if (!wrong) __threadfence();
  __syncthreads();
  c[threadIdx.x] += part;
  if (!wrong) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(turn, 1);
}
void run(bool wrong) {
  int *c = device_array(64), *turn = device_array(1);
  split<<<4, 64>>>((float*)c, turn, wrong);
  cudaDeviceSynchronize();
  cudaFree(turn);
  finish(c);
}
