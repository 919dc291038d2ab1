// A pointer to the host's own memory on the device.
// wrong: out-of-bounds here
// right:
__global__ void fill(int* x) {
  x[threadIdx.x] = 1;  // here
}
void run(bool wrong) {
  int* x = wrong ? static_cast<int*>(malloc(256)) : device_array(64);
  fill<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  wrong ? free(x) : static_cast<void>(cudaFree(x));
}
