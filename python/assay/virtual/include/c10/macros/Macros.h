#pragma once
#include "assay/light/macros.h"
