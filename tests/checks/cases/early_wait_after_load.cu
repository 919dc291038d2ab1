// A kernel that may start early loads its weights before it waits, which no kernel writes; wrong: its activations as well.
// wrong: data-race here
// right:
__global__ void make(int* x) {
  let_dependents_start();
  x[threadIdx.x] = threadIdx.x + 1;
}
__global__ void scale(const int* weights, const int* x, int* y, bool too_soon) {
  const int t = threadIdx.x, weight = weights[t];
  int value = 0;
  if (too_soon) value = *static_cast<const volatile int*>(x + t);  // here
  wait_for_grid();
  if (!too_soon) value = x[t];
  y[t] = weight * value;
}
void run(bool wrong) {
  int *weights = device_array(64), *x = device_array(64), *y = device_array(64);
  make<<<1, 64>>>(x);
  launch_early(scale, 1, 64, nullptr, weights, x, y, wrong);
  cudaDeviceSynchronize();
  cudaFree(weights);
  cudaFree(x);
  cudaFree(y);
}
