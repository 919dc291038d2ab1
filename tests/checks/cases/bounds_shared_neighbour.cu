// A store past one shared array into the next.
// wrong: out-of-bounds here
// right:
__global__ void mix(int* x, int shift) {
  __shared__ int first[32];
  __shared__ int second[32];
  first[threadIdx.x] = threadIdx.x;
  second[threadIdx.x] = threadIdx.x;
  __syncthreads();
  first[threadIdx.x + shift] = x[threadIdx.x];  // here
  __syncthreads();
  x[threadIdx.x] = first[31 - threadIdx.x] + second[31 - threadIdx.x];
}
void run(bool wrong) {
  int* x = device_array(64);
  mix<<<1, 32>>>(x, wrong ? 1 : 0);
  finish(x);
}
