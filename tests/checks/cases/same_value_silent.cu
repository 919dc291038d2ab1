// The same flag, not asked about; and one that the threads set to different values.
// wrong: data-race here
// right:
__global__ void mark(int* flag, int step) {
  *flag = 1 + step * threadIdx.x;  // here
}
void run(bool wrong) {
  int* flag = device_array(1);
  mark<<<2, 64>>>(flag, wrong ? 1 : 0);
  finish(flag);
}
