// Threads of two blocks set one flag to the same value: nothing is said unless asked. An atomic needs no note.
// checks: all,same-value
// wrong: same-value-store here
// right:
__global__ void mark(int* flag, bool plain) {
  if (plain)
    *flag = 1;  // here
  else
    atomicExch(flag, 1);
}
void run(bool wrong) {
  int* flag = device_array(1);
  mark<<<2, 64>>>(flag, wrong);
  finish(flag);
}
