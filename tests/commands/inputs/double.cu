// A program of its own: doubles `count` numbers in an allocation of 100, and reports a wrong result in its exit status.
#include <cstdio>
#include <cstdlib>

__global__ void twice(float* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= 2;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100;
  float host[100];
  for (int i = 0; i < 100; ++i) host[i] = i;
  float* device;
  cudaMalloc(&device, sizeof host);
  cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
  twice<<<1, 128>>>(device, count);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  cudaFree(device);
  std::printf("last %g\n", host[99]);
  return host[99] == 198 ? 0 : 4;
}
