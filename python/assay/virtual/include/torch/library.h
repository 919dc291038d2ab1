#pragma once
#include "assay/light/library.h"
#include "assay/light/standard.h"
#include "assay/light/utility.h"
