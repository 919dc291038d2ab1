#pragma once
#include "assay/light/pybind.h"
