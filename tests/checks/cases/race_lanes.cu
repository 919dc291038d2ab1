// Lanes of one instruction store to one address: different values, or all the same.
// wrong: data-race here
// right:
__global__ void set(int* x, int step) {
  *x = 7 + step * threadIdx.x;  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  set<<<1, 32>>>(x, wrong ? 1 : 0);
  finish(x);
}
