// What the matrix instructions share: the form of a product, and its arithmetic on gathered words.
#pragma once

#include "vgpu/handlers/fragment.h"

namespace assay::vgpu::ASSAY_BUILD {

inline constexpr uint32_t kMaxRows = 32, kMaxColumns = 32, kMaxWords = 16, kMaxRegisters = 8;

struct MmaForm {
  uint32_t m, n, k;
  uint32_t words;           // of a row of A, and of a column of B
  uint32_t c_bits, d_bits;  // of an element: 16, 32, 64
  uint32_t c_registers, d_registers;
  PlaneOffset a[kMaxRegisters], b[kMaxRegisters], c[kMaxRegisters], d[kMaxRegisters];
  void (*arithmetic)();  // an Arithmetic of the form's words and elements
  bool saturates;        // .satfinite
  uint8_t rounding;      // f64: numerics::Rounding
};

// Turns c, elements of C as codes, into elements of D.
template <class Word, class T>
using Arithmetic = void (*)(const MmaForm& form, const Word (*rows)[kMaxWords],
                            const Word (*columns)[kMaxWords], T (*c)[kMaxColumns]);

// Sets `arithmetic` and what it needs for these types and modifiers; false where there is none
// (matrix_arithmetic.cpp).
bool describe_arithmetic(const ptx::Instruction& inst, ptx::Type d, ptx::Type a, ptx::Type b, ptx::Type c,
                         MmaForm& form);
// mma.m8n8k4 of f16: four products at once, one for each quad pair (matrix_quad.cpp).
void lower_quad_mma(Lowering& l);

}  // namespace assay::vgpu::ASSAY_BUILD
