// A variable that one path never sets.
// wrong: uninitialized here
// right:
__global__ void pick(const int* x, int* y, int n) {
  int v;
  for (int i = 0; i < n; ++i) asm volatile("mov.b32 %0, %1;" : "=r"(v) : "r"(x[i]));
  y[threadIdx.x] = v;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  pick<<<1, 32>>>(x, y, wrong ? 0 : 3);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
