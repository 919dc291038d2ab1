// Lanes that read 16 bytes each from rows far apart, all blocks the same rows; wrong: the last block then writes one
// element of what the others have read.
// wrong: data-race here
// right:
// threads: 2
__global__ void read_rows(int4* rows, int* out, int pitch, bool writes) {
  const int4 row = rows[threadIdx.x * pitch];
  out[blockIdx.x * blockDim.x + threadIdx.x] = row.x + row.y + row.z + row.w;
  if (writes && blockIdx.x == gridDim.x - 1 && threadIdx.x == 5) reinterpret_cast<int*>(rows + 7 * pitch)[2] = -5;  // here
}
void run(bool wrong) {
  int *rows = device_array(4 * 9 * 64), *out = device_array(6 * 64);
  read_rows<<<6, 64>>>(reinterpret_cast<int4*>(rows), out, 9, wrong);
  cudaDeviceSynchronize();
  cudaFree(rows);
  cudaFree(out);
}
