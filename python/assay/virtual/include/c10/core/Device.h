#pragma once
#include "assay/light/options.h"
