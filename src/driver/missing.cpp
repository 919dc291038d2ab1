// The entry points that are not provided. Arguments do not matter, so one shape fits all of them.
#include "driver/driver.h"

#define MISSING(symbol, name, since)                    \
  DRIVER_API assay::cudart::Status symbol() {           \
    return assay::cudart::assay_not_supported(#symbol); \
  }
#include "driver/symbols.def"
