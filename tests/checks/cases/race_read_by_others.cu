// A block changes what it has read itself, and what another block has read too when it is wrong. That the block waits
// for the other does not order them: there is no fence.
// wrong: data-race here
// right:
__device__ volatile int flag;
__global__ void change(int* x, int* out, bool wrong) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x == 0 || wrong ? 0 : 1];
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 1) {
    flag = 1;
  } else {
    while (flag == 0) {
    }
    x[0] = 7;  // here
  }
}
void run(bool wrong) {
  int *x = device_array(2), *out = device_array(128);
  change<<<2, 64>>>(x, out, wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(out);
}
