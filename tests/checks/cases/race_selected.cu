// A pair turns in place: whichever way a thread takes, it uses what its neighbour may already have replaced.
// wrong: data-race here
// right:
__global__ void turn(float* x, bool sync) {
  const int i = threadIdx.x;
  const float a = x[i], b = x[i ^ 1];
  if (sync) __syncwarp();
  x[i] = i % 2 ? a + b : a - b;  // here
}
void run(bool wrong) {
  int* x = device_array(32);
  cudaMemset(x, 0x3c, 128);
  turn<<<1, 32>>>(reinterpret_cast<float*>(x), !wrong);
  finish(x);
}
