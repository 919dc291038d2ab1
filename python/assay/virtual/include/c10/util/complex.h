#pragma once
#include "assay/light/complex.h"
