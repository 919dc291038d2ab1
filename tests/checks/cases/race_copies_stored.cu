// Two lanes store their copies of one value with one instruction: a race, but in kernels compiled from tensors.
// wrong: data-race here
// right:
template <bool FromTensors>
__global__ void store(int* x) {
  __shared__ int tile[32];
  if (FromTensors) asm volatile(".pragma \"assay_threads_hold_copies\";");
  tile[threadIdx.x / 2] = static_cast<int>(threadIdx.x);  // here
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x / 2] / 2;
}
void run(bool wrong) {
  int* x = device_array(64);
  if (wrong)
    store<false><<<1, 64>>>(x);
  else
    store<true><<<1, 64>>>(x);
  cudaDeviceSynchronize();
  cudaFree(x);
}
