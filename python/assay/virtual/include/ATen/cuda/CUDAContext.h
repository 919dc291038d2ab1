#pragma once
#include "assay/light/utility.h"
#if defined(ASSAY_USES_CUBLAS)
#include <cublas_v2.h>
#endif
