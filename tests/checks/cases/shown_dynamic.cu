// Dynamic shared memory by its name, with lanes of one warp: a warp barrier is enough.
// wrong: data-race here
// right:
// shows: reads smem[
// shows: of the same block writes at 
// shows: a `__syncwarp()` between lines 9 and 11 would order them
extern __shared__ float smem[];
__global__ void swap(float* x, bool waits) {
  smem[threadIdx.x] = x[threadIdx.x];
  if (waits) __syncwarp();
  x[threadIdx.x] = smem[threadIdx.x ^ 1];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  swap<<<1, 64, 256>>>((float*)x, !wrong);
  finish(x);
}
