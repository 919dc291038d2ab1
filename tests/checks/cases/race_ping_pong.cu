// Two buffers in turn need one barrier a step; one buffer needs two.
// wrong: data-race
// right:
__global__ void steps(int* y, int count, int buffers) {
  __shared__ int s[2][64];
  const int t = threadIdx.x;
  int v = t;
  for (int i = 0; i < count; ++i) {
    int* now = s[i % buffers];
    now[t] = v;
    __syncthreads();
    v = now[(t + 33) % 64] + 1;
  }
  y[t] = v;
}
void run(bool wrong) {
  int* y = device_array(64);
  steps<<<1, 64>>>(y, 5, wrong ? 1 : 2);
  finish(y);
}
