// The default stream waits for blocking streams, and not for others.
// wrong: data-race
// right:
__global__ void produce(int* x) { x[threadIdx.x] = threadIdx.x; }
__global__ void change(int* x) { x[threadIdx.x] += 1; }
void run(bool wrong) {
  int* x = device_array(64);
  cudaStream_t a;
  cudaStreamCreateWithFlags(&a, wrong ? cudaStreamNonBlocking : cudaStreamDefault);
  produce<<<1, 32, 0, a>>>(x);
  change<<<1, 32>>>(x);
  produce<<<1, 32, 0, a>>>(x);
  cudaDeviceSynchronize();
  cudaStreamDestroy(a);
  cudaFree(x);
}
