// The program ends without waiting for its kernel.
// wrong: unwaited-work,leak
// right:
__global__ void fill(int* x) { x[threadIdx.x] = 1; }
void run(bool wrong) {
  int* x = device_array(64);
  fill<<<1, 32>>>(x);
  if (!wrong) finish(x);
}
