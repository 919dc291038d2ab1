// An index past an array that is passed by value.
// wrong: out-of-bounds here
// right:
struct Table {
  int at[8];
};
__global__ void look_up(int* x, const __grid_constant__ Table table, int step) {
  const int* at = table.at;
  x[threadIdx.x] = at[threadIdx.x * step];  // here
}
void run(bool wrong) {
  int* x = device_array(64);
  Table table{};
  look_up<<<1, 8>>>(x, table, wrong ? 3 : 1);
  finish(x);
}
