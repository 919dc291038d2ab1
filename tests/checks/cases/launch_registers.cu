// A kernel with so many registers that 1,024 threads of it do not fit; nobody looks at the error.
// wrong: launch-failure
// right:
__global__ void reverse(float* x, int n) {
  float r[100];
#pragma unroll
  for (int i = 0; i < 100; ++i) r[i] = x[i * n + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 100; ++i) x[(99 - i) * n + threadIdx.x] = r[i] * r[(i * 7 + 3) % 100];
}
void run(bool wrong) {
  int* x = device_array(100 * 1024);
  reverse<<<1, wrong ? 1024 : 256>>>(reinterpret_cast<float*>(x), 1024);
  finish(x);
}
