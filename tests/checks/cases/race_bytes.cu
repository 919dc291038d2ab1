// Threads write their own bytes of one word, and one of them the other's too.
// wrong: data-race here
// right:
__global__ void fill(char* x, int count) {
  char* own = x + 2 * threadIdx.x;
  for (int i = 0; i < count; ++i) own[i] = static_cast<char>(10 * threadIdx.x + i);  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  fill<<<1, 3>>>(reinterpret_cast<char*>(x), wrong ? 4 : 2);
  finish(x);
}
