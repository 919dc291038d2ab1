__device__ int base = 2;
__device__ int twice(int x) {
  return 2 * x;
}
