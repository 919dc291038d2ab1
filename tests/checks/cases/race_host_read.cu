// The host reads managed memory before it has waited for the kernel that writes it.
// wrong: data-race here
// right:
__global__ void produce(int* x) {
  x[threadIdx.x] = threadIdx.x + 1;  // here
}
void run(bool wrong) {
  int* x = nullptr;
  cudaMallocManaged(&x, 64 * sizeof(int));
  cudaMemset(x, 0, 64 * sizeof(int));
  x[5] = 7;  // cudaMemset waits where the host sees the memory
  produce<<<1, 64>>>(x);
  if (!wrong) cudaDeviceSynchronize();
  volatile int first = x[0];
  (void)first;
  cudaDeviceSynchronize();
  cudaFree(x);
}
