// A store past the end of an allocation.
// wrong: out-of-bounds here
// right:
__global__ void fill(int* x, int n, int shift) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x + shift;
  x[i] = i;  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  fill<<<2, 32>>>(x, 64, wrong ? 8 : 0);
  finish(x);
}
