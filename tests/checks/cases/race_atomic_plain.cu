// An atomic against a plain store.
// wrong: data-race here
// right:
__global__ void count(int* x, bool plain) {
  if (blockIdx.x == 0)
    atomicAdd(x, 1);
  else if (plain)
    *x = 5;  // here
  else
    atomicExch(x, 5);
}
void run(bool wrong) {
  int* x = device_array(64);
  count<<<2, 1>>>(x, wrong);
  finish(x);
}
