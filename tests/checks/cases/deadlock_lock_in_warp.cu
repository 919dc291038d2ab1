// Lanes of a warp take a lock in turn; who holds it must not wait for those who want it.
// wrong: deadlock
// right:
__global__ void locked(int* lock, int* data, bool together) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *data += 1;
  if (together) __syncwarp();
  __threadfence();
  atomicExch(lock, 0);
}
void run(bool wrong) {
  int *lock = device_array(1), *data = device_array(1);
  locked<<<2, 32>>>(lock, data, wrong);
  cudaDeviceSynchronize();
  cudaFree(lock);
  cudaFree(data);
}
