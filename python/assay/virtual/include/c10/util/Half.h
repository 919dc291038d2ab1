#pragma once
#include "assay/light/half.h"
