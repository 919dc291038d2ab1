// A scan in one buffer: between reading a neighbour and writing the sum a barrier is needed, too.
// wrong: data-race
// right:
__global__ void scan(int* x, bool wrong) {
  __shared__ int line[128];
  line[threadIdx.x] = x[threadIdx.x] + 1;
  __syncthreads();
  for (unsigned d = 1; d < 128; d *= 2) {
    const int before = threadIdx.x >= d ? line[threadIdx.x - d] : 0;
    if (!wrong) __syncthreads();
    line[threadIdx.x] += before;
    __syncthreads();
  }
  x[threadIdx.x] = line[threadIdx.x];
}
void run(bool wrong) {
  int* x = device_array(128);
  scan<<<1, 128>>>(x, wrong);
  finish(x);
}
