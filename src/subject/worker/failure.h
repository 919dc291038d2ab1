// A CUDA call of the worker's own that failed. Thrown where it happens, and caught where the reply is
// written.
#pragma once

namespace assay::worker {

struct Failed {
  int error;  // cudaError_t
  const char* stage;
};

inline void check(int error, const char* stage) {
  if (error != 0) throw Failed{error, stage};
}

}  // namespace assay::worker
