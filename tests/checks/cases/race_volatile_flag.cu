// One lane leaves a number for the others of its warp, through volatile shared memory. Lanes that wait until it is
// there are right; lanes that take it to be there are not.
// wrong: data-race here
// right:
template <bool kWait>
__global__ void hand_over(int* y) {
  __shared__ int s[2];
  volatile int* v = s;
  const int t = threadIdx.x;
  if (t == 0) v[0] = v[1] = 0;
  __syncthreads();
  if (t == 0) {
    v[0] = 42;  // here
    __threadfence_block();
    v[1] = 1;
  } else if (kWait) {
    while (v[1] == 0) {
    }
    __threadfence_block();
  }
  y[t] = v[0];
}
void run(bool wrong) {
  int* y = device_array(32);
  if (wrong)
    hand_over<false><<<1, 32>>>(y);
  else
    hand_over<true><<<1, 32>>>(y);
  finish(y);
}
