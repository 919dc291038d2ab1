// Work on the stream clears an input and brings it back; what was asked for before it was protected counts for nothing.
// wrong: clobbered-input
// right:
// shows: a fill on stream
// shows: changes offset 0 of
void run(bool wrong) {
  int *x = device_array(32), *y = device_array(32);
  cudaMemsetAsync(x, 7, 128);
  assay_protect(x, 128, "x");
  cudaMemcpyAsync(y, x, 128, cudaMemcpyDeviceToDevice);
  if (wrong) cudaMemsetAsync(x, 0, 128);
  if (wrong) cudaMemcpyAsync(x, y, 128, cudaMemcpyDeviceToDevice);
  assay_judge_ranges(0);
  cudaFree(x);
  cudaFree(y);
}
