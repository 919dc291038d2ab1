// A load out of a condition, as compilers hoist them: its value is dropped where nothing was written.
// wrong: uninitialized here
// right:
__global__ void pick(const int* x, int* y, int n) {
  const int i = threadIdx.x;
  const int v = x[i];
  y[i] = i < n ? v : 0;  // here
}
void run(bool wrong) {
  int *x, *y = device_array(64);
  cudaMalloc(&x, 256);
  cudaMemset(x, 0, 80);
  pick<<<1, 64>>>(x, y, wrong ? 21 : 20);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
