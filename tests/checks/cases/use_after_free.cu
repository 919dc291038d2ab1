// A kernel uses memory that has been freed.
// wrong: out-of-bounds here
// right:
__global__ void fill(int* x) {
  x[threadIdx.x] = 1;  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  if (wrong) cudaFree(x);
  fill<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  if (!wrong) cudaFree(x);
}
