#pragma once
#include "assay/light/array_ref.h"
