// The host adds up an array from its beginning; the kernel that it has not waited for writes far behind that.
// wrong: data-race here
// right:
__global__ void produce(int* x) {
  x[1001] = 42;  // here
}
void run(bool wrong) {
  constexpr int kCount = 4096;
  int* x = nullptr;
  cudaMallocManaged(&x, kCount * sizeof(int));
  for (int i = 0; i < kCount; ++i) x[i] = i;
  produce<<<1, 1>>>(x);
  if (!wrong) cudaDeviceSynchronize();
  int sum = 0;
  for (int i = 0; i < kCount; ++i) sum += x[i];
  cudaDeviceSynchronize();
  cudaFree(x);
  if (!wrong && sum != kCount / 2 * (kCount - 1) + 42 - 1001) abort();
}
