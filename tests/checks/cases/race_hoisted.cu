// A load out of a condition, as compilers hoist them: it races for the lanes that use its value.
// wrong: data-race here
// right:
__global__ void pick(int* x, int n) {
  __shared__ int line[64];
  const int i = threadIdx.x;
  if (i < 32) line[i] = x[i];
  __syncwarp();
  const int v = line[i % 32];  // here
  x[i] = i < n ? v : 0;
}
void run(bool wrong) {
  int* x = device_array(64);
  cudaMemset(x, 1, 256);
  pick<<<1, 64>>>(x, wrong ? 33 : 32);
  finish(x);
}
