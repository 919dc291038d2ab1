#pragma once
#include "assay/light/exception.h"
