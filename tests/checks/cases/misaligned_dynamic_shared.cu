// Two arrays in one piece of dynamic shared memory: the second needs 16 bytes, the first has an odd count.
// wrong: misaligned
// right:
__global__ void exchange(int* y, int count, bool round) {
  extern __shared__ int room[];
  int* first = room;
  const int at = round ? (count + 3) / 4 * 4 : count;
  float4* second = reinterpret_cast<float4*>(room + at);
  first[threadIdx.x] = threadIdx.x;
  second[threadIdx.x] = make_float4(threadIdx.x, 1, 2, 3);
  __syncthreads();
  y[threadIdx.x] = second[31 - threadIdx.x].x + first[31 - threadIdx.x];
}
void run(bool wrong) {
  int* y = device_array(32);
  exchange<<<1, 32, 1024>>>(y, 33, !wrong);
  finish(y);
}
