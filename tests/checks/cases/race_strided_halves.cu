// Blocks write columns of 16-bit elements, two to a word; wrong: two blocks write the same column.
// wrong: data-race here
// right:
// threads: 2
__global__ void fill_columns(unsigned short* y, int rows, int columns, bool same) {
  const int column = same ? blockIdx.x / 2 : blockIdx.x;
  for (int r = threadIdx.x; r < rows; r += blockDim.x)
    y[r * columns + column] = static_cast<unsigned short>(blockIdx.x + 1);  // here
}
void run(bool wrong) {
  int* y = device_array(64 * 8);
  fill_columns<<<16, 64>>>(reinterpret_cast<unsigned short*>(y), 64, 16, wrong);
  finish(y);
}
