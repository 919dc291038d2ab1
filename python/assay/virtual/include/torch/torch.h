#pragma once
#include "assay/light/standard.h"
#include "assay/light/utility.h"
#include "assay/light/library.h"
