// Host code reads device memory.
// wrong: out-of-bounds
// right:
void run(bool wrong) {
  int* x = device_array(64);
  int first = 0;
  if (wrong)
    first = *static_cast<volatile int*>(x);
  else
    cudaMemcpy(&first, x, sizeof first, cudaMemcpyDeviceToHost);
  finish(x);
  if (first != 0) abort();
}
