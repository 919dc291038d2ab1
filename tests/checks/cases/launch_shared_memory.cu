// More dynamic shared memory than a kernel has without asking for it; nobody looks at the error.
// wrong: launch-failure
// right:
__global__ void touch(int* y) {
  extern __shared__ int s[];
  s[threadIdx.x + 20000] = threadIdx.x;
  y[threadIdx.x] = s[threadIdx.x + 20000];
}
void run(bool wrong) {
  int* y = device_array(32);
  if (!wrong) cudaFuncSetAttribute(touch, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
  touch<<<1, 32, 100000>>>(y);
  finish(y);
}
