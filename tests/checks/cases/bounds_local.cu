// An index far outside a local array.
// wrong: out-of-bounds here
// right:
__global__ void pick(int* x, int at) {
  int table[16];
  for (int i = 0; i < 16; ++i) table[(i * 5) & 15] = x[i];
  table[at] = 7;  // here
  for (int i = 0; i < 16; ++i) x[i] = table[(i + x[i]) & 15];
}
void run(bool wrong) {
  int* x = device_array(64);
  pick<<<1, 1>>>(x, wrong ? 1 << 20 : 3);
  finish(x);
}
