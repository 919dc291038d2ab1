// An index outside a constant table.
// wrong: out-of-bounds here
// right:
__constant__ int table[16];
__global__ void pick(int* x, int at) {
  x[threadIdx.x] = table[at];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  pick<<<1, 32>>>(x, wrong ? 1 << 16 : 3);
  finish(x);
}
