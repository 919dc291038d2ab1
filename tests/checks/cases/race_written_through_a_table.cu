// A kernel reads an array by its parameter, and writes through a pointer that it finds in memory: the same array, or another.
// wrong: data-race
// right:
__global__ void fill(int** table, int* pointed) { table[0] = pointed; }
__global__ void shift(const int* from, int* const* table) {
  table[0][blockIdx.x * 32 + threadIdx.x] = from[(blockIdx.x ^ 1) * 32 + threadIdx.x] + 1;
}
void run(bool wrong) {
  int *x = device_array(1024), *y = device_array(1024), *table = device_array(2);
  fill<<<1, 1>>>(reinterpret_cast<int**>(table), wrong ? x : y);
  shift<<<32, 32>>>(x, reinterpret_cast<int**>(table));
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
  cudaFree(table);
}
