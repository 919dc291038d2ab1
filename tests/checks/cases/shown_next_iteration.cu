// A barrier after the tile is filled and none after it is used: the next iteration overwrites it.
// wrong: data-race here
// right:
// shows: error: data-race: 
// shows: tile[
// shows: nothing orders the two: a `__syncthreads()` after line 15, before line 13 runs again, would order them
// shows: >    13 |     tile[threadIdx.x] = x[k * 64 + threadIdx.x];
// shows: >    15 |     s += tile[63 - threadIdx.x];  // here
__global__ void sum(const int* x, int* y, bool waits) {
  __shared__ int tile[64];
  int s = 0;
  for (int k = 0; k < 4; ++k) {
    tile[threadIdx.x] = x[k * 64 + threadIdx.x];
    __syncthreads();
    s += tile[63 - threadIdx.x];  // here
    if (waits) __syncthreads();
  }
  y[threadIdx.x] = s;
}
void run(bool wrong) {
  int *x = device_array(256), *y = device_array(64);
  sum<<<1, 64>>>(x, y, !wrong);
  finish(x);
  cudaFree(y);
}
