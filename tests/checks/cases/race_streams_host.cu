// The same, ordered by the host: it waits for the first stream before it uses the second.
// wrong: data-race
// right:
__global__ void produce(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void change(int* x) { x[threadIdx.x] += 1; }
void run(bool wrong) {
  int* x = device_array(64);
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  produce<<<1, 32, 0, a>>>(x);
  if (!wrong) cudaStreamSynchronize(a);
  change<<<1, 32, 0, b>>>(x);
  if (!wrong)
    while (cudaStreamQuery(b) == cudaErrorNotReady) {
    }
  produce<<<1, 32, 0, a>>>(x);
  cudaDeviceSynchronize();
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  cudaFree(x);
}
