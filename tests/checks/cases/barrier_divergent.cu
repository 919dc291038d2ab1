// A barrier in a branch that half of a warp takes.
// wrong: barrier-divergence here
// right:
__global__ void half(int* x, int limit) {
  if (threadIdx.x < limit) {
    __syncthreads();  // here
  }
  x[threadIdx.x] = 1;
}
void run(bool wrong) {
  int* x = device_array(64);
  half<<<1, 32>>>(x, wrong ? 16 : 32);
  finish(x);
}
