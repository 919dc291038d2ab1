// Results are written to a file before the kernel that produces them was waited for.
// wrong: data-race here
// right:
__global__ void produce(int* x) {
  x[threadIdx.x + 512] = threadIdx.x;  // here
}
void run(bool wrong) {
  int* x = nullptr;
  cudaMallocManaged(&x, 1024 * sizeof(int));
  produce<<<1, 512>>>(x);
  if (!wrong) cudaDeviceSynchronize();
  FILE* file = fopen("/dev/null", "wb");
  setvbuf(file, nullptr, _IONBF, 0);
  if (fwrite(x, sizeof(int), 1024, file) != 1024) abort();
  fclose(file);
  cudaDeviceSynchronize();
  cudaFree(x);
}
