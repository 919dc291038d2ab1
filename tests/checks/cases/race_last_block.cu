// The last block to come adds up what the others wrote.
// wrong: data-race here
// right:
__device__ unsigned ticket;
__global__ void sum(int* partial, int* total, bool fence) {
  partial[blockIdx.x] = blockIdx.x + 1;
  if (fence) __threadfence();
  const bool last = atomicAdd(&ticket, 1) == gridDim.x - 1;
  if (!last) return;
  __threadfence();
  int all = 0;
  for (int i = 0; i < gridDim.x; ++i) all += partial[i];  // here
  *total = all;
}
void run(bool wrong) {
  int *partial = device_array(64), *total = device_array(1);
  sum<<<8, 1>>>(partial, total, !wrong);
  cudaDeviceSynchronize();
  cudaFree(partial);
  cudaFree(total);
}
