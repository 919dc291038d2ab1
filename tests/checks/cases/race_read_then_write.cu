// Everybody reads one word, and the last thread writes it.
// wrong: data-race here
// right:
__global__ void pass(int* x, bool sync) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 1;
  __syncthreads();
  const int seen = s;
  if (sync) __syncthreads();
  if (threadIdx.x == blockDim.x - 1) s = 2 + seen;  // here
  __syncthreads();
  x[threadIdx.x] = s + seen;
}
void run(bool wrong) {
  int* x = device_array(128);
  pass<<<1, 128>>>(x, !wrong);
  finish(x);
}
