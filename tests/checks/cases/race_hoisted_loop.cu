// As race_hoisted, with a condition that changes after the load: what counts is what it was.
// wrong: data-race here
// right:
__global__ void pick(int* x, int first, int second) {
  __shared__ int line[64];
  const int i = threadIdx.x;
  if (i < 32) line[i] = line[i + 32] = x[i];
  __syncwarp();
  int sum = 0;
#pragma unroll 1
  for (int round = 0, limit = first; round < 2; ++round, limit = second) {
    const bool use = i < limit;
    sum += use;
    const int v = line[i % 32 + 32 * round];  // here
    sum += use ? v : 0;
  }
  x[i] = sum;
}
void run(bool wrong) {
  int* x = device_array(64);
  cudaMemset(x, 1, 256);
  pick<<<1, 64>>>(x, wrong ? 40 : 32, 32);
  finish(x);
}
