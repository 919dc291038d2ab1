// What the matrix instructions share: the form of a product, and its arithmetic on gathered matrices.
#pragma once

#include "vgpu/handlers/fragment.h"

namespace assay::vgpu::ASSAY_BUILD {

inline constexpr uint32_t kMaxRegisters = 8;

// A as rows, B as columns, both packed along k; C, and then D, as rows of elements.
struct Matrices {
  alignas(64) std::byte a[2048];
  alignas(64) std::byte b[1024];
  alignas(64) std::byte c[1024];

  template <class T>
  static T* as(std::byte* matrix) {
    return reinterpret_cast<T*>(matrix);
  }
};

struct MmaForm {
  uint32_t m, n, k;
  uint32_t words;                     // of a row of A, and of a column of B
  uint32_t c_bits, d_bits;            // of an element: 16, 32, 64
  uint32_t a_registers, b_registers;  // that hold different elements
  uint32_t c_registers, d_registers;
  PlaneOffset a[kMaxRegisters], b[kMaxRegisters], c[kMaxRegisters], d[kMaxRegisters];
  // Where a register's block of the matrix begins: a word of A and B by register, an element of C by pair.
  uint16_t a_corner[kMaxRegisters], b_corner[kMaxRegisters], c_corner[kMaxRegisters / 2];
  void (*arithmetic)(const MmaForm& form, Matrices& x);  // turns C into D
  ptx::Type a_type, b_type;
  bool saturates;    // .satfinite
  bool counts_and;   // b1: and, not xor
  uint8_t rounding;  // f64: numerics::Rounding
};

// Sets `arithmetic` and what it needs for these types and modifiers; false where there is none
// (matrix_arithmetic.cpp).
bool describe_arithmetic(const ptx::Instruction& inst, ptx::Type d, ptx::Type a, ptx::Type b, ptx::Type c,
                         MmaForm& form);

}  // namespace assay::vgpu::ASSAY_BUILD
