// Two arrays carved out of dynamic shared memory, the second by an offset in the wrong unit: they overlap.
// wrong: data-race
// right:
__global__ void carve(int* y, int count, bool bytes) {
  extern __shared__ int room[];
  int* first = room;
  short* second = reinterpret_cast<short*>(reinterpret_cast<char*>(room) + (bytes ? count * sizeof(int) : count));
  const int t = threadIdx.x;
  first[t] = t;
  second[t] = t + 1;
  __syncthreads();
  y[t] = first[count - 1 - t] + second[count - 1 - t];
}
void run(bool wrong) {
  int* y = device_array(64);
  carve<<<1, 64, 64 * 6>>>(y, 64, !wrong);
  finish(y);
}
