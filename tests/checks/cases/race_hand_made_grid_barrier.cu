// A barrier of all blocks made by hand. One thread arrives for its block, and the others must have written by then.
// wrong: data-race here
// right:
__global__ void rotate(int* x, int* y, int* arrived, bool meet) {
  const int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
  if (meet) __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (*(volatile int*)arrived < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  y[i] = x[(i + 40) % n];  // here
}
void run(bool wrong) {
  int *x = device_array(256), *y = device_array(256), *arrived = device_array(1);
  rotate<<<4, 64>>>(x, y, arrived, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
  cudaFree(arrived);
}
