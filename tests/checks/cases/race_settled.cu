// Two blocks have read a word when a third writes it; the read of a fourth races with that write, at a line of its own. The
// row is one that marks cannot describe: a warp has read it backwards.
// wrong: data-race here
// right:
__global__ void publish(int* x, int* out, int place) {
  const int i = threadIdx.x;
  if (blockIdx.x == 0) out[32 + i] = x[31 - i];
  if (i != 0) return;
  if (blockIdx.x < 2) out[blockIdx.x] = x[0];
  if (blockIdx.x == 2) x[place] = 5;
  if (blockIdx.x == 3) out[3] = x[0] + 1;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *out = device_array(64);
  publish<<<4, 32>>>(x, out, wrong ? 0 : 40);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(out);
}
