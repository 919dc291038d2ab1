// Scalar functions with the GPU's exact semantics, a header for each family.
// All are plain inline functions without state, written so that a loop over the
// lanes of a warp vectorises; what is rare or slow is declared here and defined
// in a .cpp. Modifiers of an instruction (.rz, .ftz, .sat, .relu) are template
// parameters. docs/numerics.md says what was measured on hardware.
#pragma once

#include "numerics/approx.h"   // ex2, lg2, sin, cos, rcp, rsqrt, sqrt, tanh, div: the .approx forms
#include "numerics/arith.h"    // f32 and f64: add sub mul fma div rcp sqrt, min max, sign, testp
#include "numerics/convert.h"  // cvt in all its forms
#include "numerics/half.h"     // f16, bf16 and their packed pairs
#include "numerics/integer.h"  // bit fields, permutes, products, carries
#include "numerics/video.h"    // vadd .. vset, vadd2, vadd4 ...
