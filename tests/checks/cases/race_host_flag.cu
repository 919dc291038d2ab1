// The host polls a flag that the kernel sets after what it announces. Read without asking the flag, that is a race.
// wrong: data-race here
// right:
__global__ void produce(int* data, int* flag, bool tells) {
  data[threadIdx.x] = threadIdx.x + 1;  // here
  __syncthreads();
  if (threadIdx.x == 0 && tells) {
    __threadfence_system();
    *(volatile int*)flag = 1;
  }
}
__global__ void announce(int* flag) { *(volatile int*)flag = 2; }
void run(bool wrong) {
  int *data = nullptr, *flag = nullptr;
  cudaMallocHost(&data, 64 * sizeof(int));
  cudaMallocHost(&flag, sizeof(int));
  *flag = 0;
  produce<<<1, 64>>>(data, flag, !wrong);
  if (!wrong)
    while (*(volatile int*)flag != 1) {
    }
  volatile int value = data[0];
  produce<<<1, 64>>>(data, flag, false);
  announce<<<1, 1>>>(flag);  // for all that came before it in its stream
  if (!wrong)
    while (*(volatile int*)flag != 2) {
    }
  value = data[0];
  cudaDeviceSynchronize();
  cudaFreeHost(data);
  cudaFreeHost(flag);
}
