#pragma once
#include "assay/light/pybind.h"
#include "torch/types.h"
