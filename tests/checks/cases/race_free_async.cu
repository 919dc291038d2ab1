// Memory given back on one stream while another still uses it. The free comes first here, and the kernel finds nothing.
// wrong: out-of-bounds here
// right:
__global__ void produce(int* x) {
  x[threadIdx.x] = threadIdx.x;  // here
}
void run(bool wrong) {
  cudaStream_t a, b;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  int* x;
  cudaMallocAsync(&x, 256, a);
  produce<<<1, 32, 0, a>>>(x);
  cudaFreeAsync(x, wrong ? b : a);
  cudaDeviceSynchronize();
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
}
