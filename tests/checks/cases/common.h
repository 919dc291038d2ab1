// What the cases share: an array of zeros, and waiting for and freeing it.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "assay.h"

inline int* device_array(int count) {
  int* x = nullptr;
  cudaMalloc(&x, count * sizeof(int));
  cudaMemset(x, 0, count * sizeof(int));
  cudaDeviceSynchronize();
  return x;
}

inline void finish(int* x) {
  cudaDeviceSynchronize();
  cudaFree(x);
}
