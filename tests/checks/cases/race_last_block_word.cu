// One thread finds out that its block is the last and tells the others, who must wait for the word.
// wrong: data-race,uninitialized
// right:
__global__ void total(const int* x, int* sums, int* done, int* y, bool meet) {
  __shared__ bool last;
  __shared__ int s[64];
  const int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  if (t == 0) {
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += s[i];
    sums[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(done, 1) == gridDim.x - 1;
  }
  if (meet) __syncthreads();
  if (!last) return;
  __threadfence();
  if (t == 63) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += sums[i];
    *y = sum;
  }
}
void run(bool wrong) {
  int *x = device_array(256), *sums = device_array(4), *done = device_array(1), *y = device_array(1);
  total<<<4, 64>>>(x, sums, done, y, !wrong);
  cudaDeviceSynchronize();
  for (int* p : {x, sums, done, y}) cudaFree(p);
}
