// A sequence lock: the writer makes the count odd, writes, makes it even; readers try until they see one even count
// before and after. The data are volatile, since readers may look while they change. Plain data behind a fence too few race.
// wrong: data-race
// right:
template <class Data, bool kFence>
__global__ void share(int* count, Data* data, int* y) {
  if (blockIdx.x == 0) {
    for (int i = 1; i < 4; ++i) {
      atomicAdd(count, 1);
      __threadfence();
      data[0] = i;
      data[1] = 2 * i;
      __threadfence();
      atomicAdd(count, 1);
    }
  } else {
    int before, a, b;
    do {
      while ((before = atomicAdd(count, 0)) % 2) {
      }
      if (kFence) __threadfence();
      a = data[0];
      b = data[1];
      __threadfence();
    } while (atomicAdd(count, 0) != before);
    y[blockIdx.x] = b - 2 * a;
  }
}
void run(bool wrong) {
  int *count = device_array(1), *data = device_array(2), *y = device_array(4);
  if (wrong)
    share<int, false><<<4, 1>>>(count, data, y);
  else
    share<volatile int, true><<<4, 1>>>(count, data, y);
  cudaDeviceSynchronize();
  cudaFree(count);
  cudaFree(data);
  cudaFree(y);
}
