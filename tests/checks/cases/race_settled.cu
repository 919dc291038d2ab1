// Two blocks have read a word when a third writes it; the read of a fourth races with that write, at a line of its own.
// wrong: data-race here
// right:
__global__ void publish(int* x, int* out, int place) {
  if (blockIdx.x < 2) out[blockIdx.x] = x[0];
  if (blockIdx.x == 2) x[place] = 5;
  if (blockIdx.x == 3) out[3] = x[0] + 1;  // here
}
void run(bool wrong) {
  int *x = device_array(2), *out = device_array(4);
  publish<<<4, 1>>>(x, out, wrong ? 0 : 1);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(out);
}
