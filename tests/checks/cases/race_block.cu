// Warps of one block: the second barrier of a loop is missing.
// wrong: data-race here
// right:
__global__ void rotate(int* x, int rounds, bool second) {
  __shared__ int s[128];
  for (int i = 0; i < rounds; ++i) {
    s[threadIdx.x] = x[threadIdx.x];  // here
    __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x + 33) & 127];
    if (second) __syncthreads();
  }
}
void run(bool wrong) {
  int* x = device_array(128);
  rotate<<<1, 128>>>(x, 3, !wrong);
  finish(x);
}
