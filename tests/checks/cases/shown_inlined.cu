// A race between two helpers that are inlined: both chains, the element, and where the barrier belongs.
// wrong: data-race here
// right:
// shows: shown_inlined.cu:23: error: data-race: reads tile[
// shows: ], which thread (
// shows: of the same block writes at 
// shows: shown_inlined.cu:17; nothing orders the two: a `__syncthreads()` between lines 29 and 31 would order them
// shows: >    17 |   *to = v;
// shows: >    23 |   return tile[i][j];  // here
// shows: shown_inlined.cu:23 in get, inlined at 
// shows: shown_inlined.cu:31 in turn
// shows: shown_inlined.cu:17 in put, inlined at 
// shows: shown_inlined.cu:20 in load_tile, inlined at 
// shows: shown_inlined.cu:29 in turn
// shows: kernel case_shown_inlined::turn, block (0,0,0), thread (
__device__ __forceinline__ void put(int* to, int v) {
  *to = v;
}
__device__ __forceinline__ void load_tile(int (*tile)[33], const int* x) {
  put(&tile[threadIdx.y][threadIdx.x], x[threadIdx.y * 32 + threadIdx.x]);
}
__device__ __forceinline__ int get(int (*tile)[33], int i, int j) {
  return tile[i][j];  // here
}
__global__ void turn(const int* x, int* y, bool waits) {
  __shared__ int tile[32][33];
  tile[threadIdx.y][threadIdx.x] = 0;
  __syncthreads();
  load_tile(tile, x);
  if (waits) __syncthreads();
  y[threadIdx.y * 32 + threadIdx.x] = get(tile, threadIdx.x, threadIdx.y);
}
void run(bool wrong) {
  int *x = device_array(1024), *y = device_array(1024);
  turn<<<1, dim3(32, 32)>>>(x, y, !wrong);
  finish(x);
  cudaFree(y);
}
