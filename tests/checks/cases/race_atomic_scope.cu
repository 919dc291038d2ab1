// Atomics of block scope from two blocks.
// wrong: data-race here
// right:
__global__ void count(int* x, bool narrow) {
  if (narrow)
    atomicAdd_block(x, 1);  // here
  else
    atomicAdd(x, 1);
}
void run(bool wrong) {
  int* x = device_array(64);
  count<<<2, 32>>>(x, wrong);
  finish(x);
}
