#pragma once
#ifndef ASSAY_NO_BINDING
#include "assay/light/pybind.h"
#endif
#include "torch/types.h"
