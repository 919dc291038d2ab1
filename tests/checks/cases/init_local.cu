// An element of a local array that was never set decides a branch.
// wrong: uninitialized here
// right:
__global__ void pick(const int* x, int* y, int n, int at) {
  int table[16];
  for (int i = 0; i < n; ++i) table[(i * 3) & 15] = x[i];
  if (table[at] > 5) y[0] = 1;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  pick<<<1, 1>>>(x, y, wrong ? 3 : 16, 7);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
