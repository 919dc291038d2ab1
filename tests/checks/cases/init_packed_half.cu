// Two halves to a word, of which the last word has one: who looks at the whole word must drop the other.
// wrong: uninitialized
// right:
__global__ void pack(unsigned short* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x;
}
__global__ void sum(const unsigned* x, int* y, int n, bool mask) {
  unsigned word = x[threadIdx.x];
  if (mask && 2 * threadIdx.x + 1 >= n) word &= 0xffffu;
  y[threadIdx.x] = (word & 0xffff) + (word >> 16);
}
void run(bool wrong) {
  unsigned short* x;
  cudaMalloc(&x, 64 * sizeof *x);
  int* y = device_array(32);
  pack<<<1, 64>>>(x, 63);
  sum<<<1, 32>>>(reinterpret_cast<unsigned*>(x), y, 63, !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
