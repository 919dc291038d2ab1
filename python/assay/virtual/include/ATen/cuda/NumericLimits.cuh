#pragma once
#include "assay/light/kernel.h"
