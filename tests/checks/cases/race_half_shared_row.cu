// Four warps share 64 bytes, half a word each thread: a thread may write its own half, not its neighbour's.
// wrong: data-race here
// right:
__global__ void bump(unsigned short* x, unsigned other) {
  const unsigned lane = threadIdx.x % 32, at = threadIdx.x / 32 * 8 + lane;
  if (lane >= 8) return;
  const unsigned short mine = x[at];
  x[at ^ other] = mine + 1 + threadIdx.x;  // here
}
void run(bool wrong) {
  int* x = device_array(16);
  bump<<<1, 128>>>(reinterpret_cast<unsigned short*>(x), wrong ? 1 : 0);
  cudaDeviceSynchronize();
  cudaFree(x);
}
