#pragma once
#include "assay/light/cublas.h"
