// Lanes search and stop as soon as one of them has found something: each reads the flag in every round, and may see
// it a round late. What is found must not depend on that.
// wrong: data-race here
// right:
template <bool kCount>
__global__ void search(const int* x, int* y, int rounds) {
  __shared__ int s[1];
  volatile int* found = s;
  const int t = threadIdx.x;
  if (t == 0) found[0] = 0;
  __syncthreads();
  int seen = 0;
  if (kCount) {  // how many lanes had found theirs when this one looked
    found[0] = x[t] + t;  // here
    seen = found[0];
  } else {
    for (int i = 0; found[0] == 0 && i < rounds; ++i)
      if (x[i * 32 + t] == 7) found[0] = 1;
  }
  __syncthreads();
  y[t] = kCount ? seen : found[0];
}
void run(bool wrong) {
  int *x = device_array(1024), *y = device_array(32);
  const int seven = 7;
  cudaMemcpy(x + 100, &seven, 4, cudaMemcpyHostToDevice);
  if (wrong)
    search<true><<<1, 32>>>(x, y, 32);
  else
    search<false><<<1, 32>>>(x, y, 32);
  cudaDeviceSynchronize();
  cudaFree(x);
  cudaFree(y);
}
