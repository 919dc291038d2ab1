// One kernel reads the first halves of words, or single words of rows; another writes the other ones at the same time.
// wrong: data-race
// right:
__global__ void read(const short* x, const int* z, int* y) {
  y[threadIdx.x] = x[2 * threadIdx.x] + z[3 * threadIdx.x];
}
__global__ void write(short* x, int* z, int first) {
  x[2 * threadIdx.x + 1] = 1;
  z[3 * threadIdx.x + first] = 1;
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64), *z = device_array(128);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  read<<<1, 32, 0, a>>>(reinterpret_cast<short*>(x), z, y);
  write<<<1, 32, 0, b>>>(reinterpret_cast<short*>(x), z, wrong ? 0 : 1);
  cudaDeviceSynchronize();
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
  cudaFree(y);
  cudaFree(z);
}
