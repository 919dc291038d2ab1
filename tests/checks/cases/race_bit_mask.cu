// A bit for each element: a vote writes 32 at once; each for itself, they tread on each other's.
// wrong: data-race
// right:
__global__ void mark(const int* x, unsigned* bits, bool vote) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool set = (x[i] + i) % 3 == 0;
  if (vote) {
    const unsigned word = __ballot_sync(~0u, set);
    if (threadIdx.x % 32 == 0) bits[i / 32] = word;
  } else if (set) {
    bits[i / 32] |= 1u << i % 32;
  }
}
void run(bool wrong) {
  int *x = device_array(256), *bits = device_array(8);
  mark<<<2, 128>>>(x, reinterpret_cast<unsigned*>(bits), !wrong);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(bits);
}
