// An element past the end of a shared array, and whose memory that is.
// wrong: out-of-bounds here
// right:
// shows: error: out-of-bounds: writes first[32], past the end of shared array `first` of 128 bytes; it hits second[0][0] instead
// shows: >    12 |   first[threadIdx.x + shift] = x[threadIdx.x];  // here
__global__ void mix(int* x, int shift) {
  __shared__ int first[32];
  __shared__ int second[4][8];
  first[threadIdx.x] = threadIdx.x;
  second[threadIdx.x / 8][threadIdx.x % 8] = threadIdx.x;
  __syncthreads();
  first[threadIdx.x + shift] = x[threadIdx.x];  // here
  __syncthreads();
  x[threadIdx.x] = first[31 - threadIdx.x] + second[3][threadIdx.x / 8];
}
void run(bool wrong) {
  int* x = device_array(64);
  mix<<<1, 32>>>(x, wrong ? 1 : 0);
  finish(x);
}
