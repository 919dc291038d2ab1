// A host function of the stream says that the kernel is done, and itself uses what the kernel wrote.
// wrong: data-race here
// right:
__global__ void produce(int* x) {
  x[threadIdx.x] = threadIdx.x + 1;  // here
}
struct Shared {
  int* x;
  volatile int sum, done;
};
void add(void* data) {
  auto* shared = static_cast<Shared*>(data);
  shared->sum = shared->x[0] + shared->x[1];
  __atomic_store_n(&shared->done, 1, __ATOMIC_RELEASE);
}
void run(bool wrong) {
  Shared shared{nullptr, 0, 0};
  cudaMallocManaged(&shared.x, 64 * sizeof(int));
  produce<<<1, 64>>>(shared.x);
  cudaLaunchHostFunc(0, add, &shared);
  if (!wrong)
    while (!__atomic_load_n(&shared.done, __ATOMIC_ACQUIRE)) {
    }
  shared.x[2] = 0;
  cudaDeviceSynchronize();
  cudaFree(shared.x);
}
