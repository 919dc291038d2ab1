// Copies of two and three dimensions as the driver API describes them, in the runtime's terms.
#pragma once

#include "driver/abi.h"

namespace assay::driver {

// NotSupported: an array takes part.
cudart::Status runtime_copy(const DriverCopy3D& copy, cudart::Copy3D& params);
DriverCopy3D driver_copy(const cudart::Copy3D& params);
DriverCopy3D deepened(const DriverCopy2D& copy);

}  // namespace assay::driver
