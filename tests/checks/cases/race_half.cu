// Two-byte elements that neighbours exchange.
// wrong: data-race here
// right:
__global__ void shift(short* x, bool sync) {
  __shared__ short s[128];
  s[threadIdx.x] = x[threadIdx.x];
  if (sync) __syncthreads();
  x[threadIdx.x] = s[(threadIdx.x + 1) & 127];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  shift<<<1, 128>>>(reinterpret_cast<short*>(x), !wrong);
  finish(x);
}
// The last thread reads what the first has yet to write.
// wrong: uninitialized
