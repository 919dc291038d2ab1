// Each block writes some columns of a matrix, whose elements lie far apart; wrong: the last column of a block is the first
// of the next.
// wrong: data-race here
// right:
__global__ void fill_columns(int* y, int rows, int columns, int each) {
  for (int c = 0; c < 3; ++c)
    for (int r = threadIdx.x; r < rows; r += blockDim.x)
      y[r * columns + blockIdx.x * each + c] = 10 * blockIdx.x + c + 1;  // here
}
void run(bool wrong) {
  int* y = device_array(64 * 24);
  fill_columns<<<8, 32>>>(y, 64, 24, wrong ? 2 : 3);
  finish(y);
}
