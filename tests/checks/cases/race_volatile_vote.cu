// Lanes write to volatile shared memory and read their neighbour's word. A vote in between brings the lanes together:
// it orders no memory, but volatile accesses on either side of it are made in order on every GPU.
// wrong: data-race here
// right:
template <bool kVote>
__global__ void neighbours(const int* x, int* y) {
  __shared__ int s[32];
  volatile int* v = s;
  const int t = threadIdx.x;
  v[t] = x[t] + t + 1;
  if (kVote && __any_sync(~0u, x[t] < 0)) return;
  y[t] = v[(t + 1) % 32];  // here
}
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  if (wrong)
    neighbours<false><<<1, 32>>>(x, y);
  else
    neighbours<true><<<1, 32>>>(x, y);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
