// The smallest value and where it is: in one atomic, or in an atomic and a store that may belong to different threads.
// wrong: data-race
// right:
__global__ void smallest(const int* x, int* least, int* where, unsigned long long* both) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int v = (i * 37 + 11) % 101 + x[i];
  if (both)
    atomicMin(both, static_cast<unsigned long long>(v) << 32 | i);
  else if (atomicMin(least, v) > v)
    *where = i;
}
void run(bool wrong) {
  int *x = device_array(128), *least = device_array(1), *where = device_array(1), *both = device_array(2);
  cudaMemset(least, 0x7f, 4);
  cudaMemset(both, 0x7f, 8);
  smallest<<<4, 32>>>(x, least, where, wrong ? nullptr : reinterpret_cast<unsigned long long*>(both));
  cudaDeviceSynchronize();
  for (int* p : {x, least, where, both}) cudaFree(p);
}
