#pragma once
#include_next <cublas_v2.h>

#include "assay/light/cublas.h"
