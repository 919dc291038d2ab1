// A structure with padding between its fields is copied as a whole: nobody asks what is in there. A field that was
// never set is another matter.
// wrong: uninitialized
// right:
struct Item {
  char key;
  int value;
};
__global__ void fill(Item* x, bool all) {
  x[threadIdx.x].key = threadIdx.x;
  if (all || threadIdx.x) x[threadIdx.x].value = threadIdx.x;
}
__global__ void reverse(const Item* x, Item* y) { y[31 - threadIdx.x] = x[threadIdx.x]; }
__global__ void use(const Item* x, int* y) { y[threadIdx.x] = x[threadIdx.x].key + x[threadIdx.x].value; }
void run(bool wrong) {
  Item *x, *z;
  cudaMalloc(&x, 32 * sizeof *x);
  cudaMalloc(&z, 32 * sizeof *z);
  int* y = device_array(32);
  fill<<<1, 32>>>(x, !wrong);
  reverse<<<1, 32>>>(x, z);
  use<<<1, 32>>>(z, y);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(z);
  cudaFree(y);
}
