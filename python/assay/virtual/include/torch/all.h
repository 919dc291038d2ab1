#pragma once
#include "assay/light/standard.h"
#include "assay/light/utility.h"
#if !defined(ASSAY_NO_LIBRARY)
#include "assay/light/library.h"
#endif
