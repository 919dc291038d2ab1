// Loads by the read-only path (__ldg) of an array that the kernel also writes: elsewhere, or right there.
// wrong: data-race here
// right:
__global__ void step(int* x, int half, int from) {
  const int i = threadIdx.x;
  x[half + i] = __ldg(x + from + (i + 1) % half) + 1;  // here
}
void run(bool wrong) {
  int* x = device_array(128);
  step<<<1, 64>>>(x, 64, wrong ? 64 : 0);
  finish(x);
}
