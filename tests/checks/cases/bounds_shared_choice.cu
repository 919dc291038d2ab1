// One pointer for two shared arrays in turn (a double buffer): each is left alone, or one is left for the other.
// wrong: out-of-bounds here
// right:
__global__ void turn(int* x, int rounds, int reach) {
  __shared__ int even[64];
  __shared__ int odd[64];
  int *from = even, *to = odd;
  even[threadIdx.x] = x[threadIdx.x];
  odd[threadIdx.x] = 0;
  for (int i = 0; i < rounds; ++i) {
    __syncthreads();
    to[63 - threadIdx.x] = from[threadIdx.x] + 1;
    int* const t = from;
    from = to;
    to = t;
  }
  __syncthreads();
  x[threadIdx.x] = from[threadIdx.x] + odd[threadIdx.x * reach];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  turn<<<1, 64>>>(x, 5, wrong ? -1 : 1);
  finish(x);
}
