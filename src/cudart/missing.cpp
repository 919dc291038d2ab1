// The entry points that are not provided. Arguments do not matter, so one shape fits all of them.
#include "cudart/runtime.h"

#define MISSING(name)                           \
  ASSAY_API assay::cudart::Status name() {      \
    return assay::cudart::not_supported(#name); \
  }
#include "cudart/symbols.def"
