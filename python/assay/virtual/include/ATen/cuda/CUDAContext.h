#pragma once
#include "assay/light/utility.h"
#if defined(ASSAY_USES_CUBLAS)
#include "assay/light/cublas.h"
#endif
