// One kernel reads every seventh element, another on its own stream then writes some of them; wrong: nothing orders the
// two streams.
// wrong: data-race here
// right:
__global__ void read_sevenths(const int* x, int* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i * 7];
}
__global__ void write_some(int* x) {
  x[threadIdx.x * 21] = -2;  // here
}
void run(bool wrong) {
  int *x = device_array(7 * 256), *y = device_array(256);
  cudaStream_t one, two;
  cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
  cudaDeviceSynchronize();
  read_sevenths<<<4, 64, 0, one>>>(x, y);
  if (!wrong) cudaStreamSynchronize(one);
  write_some<<<1, 64, 0, two>>>(x);
  cudaDeviceSynchronize();
  cudaStreamDestroy(one);
  cudaStreamDestroy(two);
  cudaFree(x);
  cudaFree(y);
}
