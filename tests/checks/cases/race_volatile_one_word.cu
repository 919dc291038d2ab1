// A volatile word that says whether it is there needs no fence: the flag is in the datum. Wrong: the datum lies beside it.
// wrong: data-race here
// right:
__global__ void hand_over(volatile long long* word, volatile int* beside, int* y, bool apart) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    *beside = 7;
    *word = (1ll << 32) | 7;
  } else {
    long long seen = 0;
    while (((seen = *word) >> 32) == 0) {
    }
    *y = static_cast<int>(seen);
    if (apart) *y = *beside;  // here
  }
}
void run(bool wrong) {
  int *word = device_array(2), *beside = device_array(1), *y = device_array(1);
  hand_over<<<2, 32>>>(reinterpret_cast<long long*>(word), beside, y, wrong);
  cudaDeviceSynchronize();
  cudaFree(word);
  cudaFree(beside);
  cudaFree(y);
}
