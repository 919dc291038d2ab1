// A batch of pointers, one of which has been freed; its memory may have a new owner.
// wrong: out-of-bounds here
// right:
__global__ void add(int** parts, int count, int* y) {
  int sum = 0;
  for (int p = 0; p < count; ++p) sum += parts[p][threadIdx.x];  // here
  y[threadIdx.x] = sum;
}
void run(bool wrong) {
  int *a = device_array(32), *b = device_array(64), *y = device_array(32);
  int* host[2] = {a, b};
  int** parts;
  cudaMalloc(&parts, sizeof host);
  cudaMemcpy(parts, host, sizeof host, cudaMemcpyHostToDevice);
  if (wrong) cudaFree(a);
  add<<<1, 32>>>(parts, 2, y);
  cudaDeviceSynchronize();
  if (!wrong) cudaFree(a);
  cudaFree(b);
  cudaFree(y);
  cudaFree(parts);
}
