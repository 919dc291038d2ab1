// What other threads of the block wrote, read through the read-only cache after a barrier; the barrier is of no use there.
// wrong: data-race here
// right:
// shows: with a non-coherent load (`ld.global.nc`) after thread
// shows: the read-only cache may still hold the old value
// shows: __ldg(x + 63 - threadIdx.x)
__global__ void turn(int* x, int* y, bool cached) {
  x[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const int* from = x + 63 - threadIdx.x;
  y[threadIdx.x] = cached ? __ldg(x + 63 - threadIdx.x) : *(volatile const int*)from;  // here
}
void run(bool wrong) {
  int *x = device_array(64), *y = device_array(64);
  turn<<<1, 64>>>(x, y, wrong);
  finish(x);
  cudaFree(y);
}
