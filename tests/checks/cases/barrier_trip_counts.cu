// A barrier in a loop that threads leave after different numbers of steps.
// wrong: barrier-divergence
// right:
__global__ void rounds(int* x, bool wrong) {
  __shared__ int line[64];
  line[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const int own = 2 + threadIdx.x % 3, most = wrong ? own : 4;
  int v = 0;
  for (int i = 0; i < most; ++i) {
    if (i < own) v += line[(threadIdx.x + i) % 64];
    __syncthreads();
  }
  x[threadIdx.x] = v;
  __syncthreads();
}
void run(bool wrong) {
  int* x = device_array(64);
  rounds<<<1, 64>>>(x, wrong);
  finish(x);
}
