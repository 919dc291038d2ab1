#pragma once
#include "assay/light/utility.h"
