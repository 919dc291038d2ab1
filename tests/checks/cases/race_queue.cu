// A queue between blocks: a slot that has been taken is not yet a slot that has been filled.
// wrong: data-race
// right:
struct Queue {
  int tail;
  int ready[64];
};
__global__ void work(Queue* q, int* items, int* y, int producers, bool wait) {
  if (blockIdx.x < producers) {
    const int slot = atomicAdd(&q->tail, 1);
    items[slot] = 100 + blockIdx.x;
    __threadfence();
    atomicExch(&q->ready[slot], 1);
  } else {
    const int slot = blockIdx.x - producers;
    if (wait) {
      while (atomicAdd(&q->ready[slot], 0) == 0) __nanosleep(100);
    } else {
      while (atomicAdd(&q->tail, 0) <= slot) __nanosleep(100);
    }
    __threadfence();
    y[slot] = items[slot];
  }
}
void run(bool wrong) {
  Queue* q = reinterpret_cast<Queue*>(device_array(65));
  int *items = device_array(64), *y = device_array(8);
  work<<<16, 1>>>(q, items, y, 8, !wrong);
  cudaDeviceSynchronize();
  cudaFree(q);
  cudaFree(items);
  cudaFree(y);
}
