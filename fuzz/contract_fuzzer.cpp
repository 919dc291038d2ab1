// Any bytes give a contract or an error with a place. What is accepted can be
// explained, and its outputs can be evaluated at its smallest shape on zeros, or
// give an error.
#include "contracts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  assay::fuzz::try_contract({reinterpret_cast<const char*>(data), size});
  return 0;
}
