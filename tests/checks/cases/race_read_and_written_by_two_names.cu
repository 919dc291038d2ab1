// An array is passed twice, to be read and to be written; the blocks' parts overlap or not.
// wrong: data-race
// right:
__global__ void shift(const int* from, int* to) {
  to[blockIdx.x * 32 + threadIdx.x] = from[blockIdx.x * 32 + threadIdx.x] + 1;
}
void run(bool wrong) {
  int* x = device_array(4096);
  shift<<<32, 32>>>(x, wrong ? x + 32 : x + 2048);
  finish(x);
}
