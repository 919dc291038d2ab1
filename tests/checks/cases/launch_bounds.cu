// More threads than the kernel was compiled for; nobody looks at the error.
// wrong: launch-failure
// right:
__global__ void __launch_bounds__(128) count(int* x) {
  atomicAdd(x, 1);
}
void run(bool wrong) {
  int* x = device_array(1);
  count<<<1, wrong ? 256 : 128>>>(x);
  finish(x);
}
