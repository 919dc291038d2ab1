// Where the elements of a matrix fragment live: which (row, column) each lane's registers hold.
//
// mma.sync documents its layouts, and they all follow one rule: lane = 4 * group + member; a 32-bit
// register holds consecutive elements along k, four members side by side make a row of a tile, and
// the eight groups are its rows. Tiles are 16 (or 8) rows of A, 8 columns of B, 8 columns of C.
// wmma leaves its layout open; ours is the same rule with the tiles one after another, for
// either layout in memory.
//
//     const FragmentForm form = wmma_fragment(Matrix::A, 16, 16, 16, Type::F16);
//     for (uint32_t r = 0; r < registers_of(form); ++r)
//       for (uint32_t part = 0; part < elements_per_register(form); ++part)
//         const Element e = element_of(form, lane, r * elements_per_register(form) + part);
// `part` counts from the register's low bits. Registers have 32 bits, or 64 where elements do.
#pragma once

#include "vgpu/handlers/build.h"

namespace assay::vgpu::ASSAY_BUILD {

enum class Matrix : uint8_t { A, B, C };  // C is D, too

struct FragmentForm {
  Matrix matrix;
  uint32_t m, n, k;
  uint32_t bits;        // of an element: 1, 4, 8, 16, 32, 64
  uint32_t copies = 1;  // wmma's f16 A and B always fill eight registers: each element is there this often
};

struct Element {
  uint32_t row, col;
};

constexpr uint32_t rows_of(const FragmentForm& f) {
  return f.matrix == Matrix::B ? f.k : f.m;
}
constexpr uint32_t cols_of(const FragmentForm& f) {
  return f.matrix == Matrix::A ? f.k : f.n;
}

constexpr uint32_t elements_per_register(const FragmentForm& f) {
  return f.bits >= 32 ? 1 : 32 / f.bits;
}
constexpr uint32_t elements_of(const FragmentForm& f) {
  return rows_of(f) * cols_of(f) / kWarpSize * f.copies;
}
constexpr uint32_t registers_of(const FragmentForm& f) {
  return elements_of(f) / elements_per_register(f);
}

// The element that is number `index` of a lane, registers in order.
constexpr Element element_of(const FragmentForm& f, uint32_t lane, uint32_t index) {
  const uint32_t group = lane / 4, member = lane % 4;
  const uint32_t halves = f.m == 8 ? 1 : 2;  // of a tile's rows, eight each
  index %= elements_of(f) / f.copies;
  if (f.matrix == Matrix::C) {
    const uint32_t pair = index / 2, tile = pair / halves, tiles_wide = f.n / 8;
    return {tile / tiles_wide * 16 + pair % halves * 8 + group,
            tile % tiles_wide * 8 + member * 2 + index % 2};
  }
  const uint32_t each = elements_per_register(f), reg = index / each;
  const uint32_t steps = f.k / (4 * each);  // registers along k
  const uint32_t along = member * each + index % each;
  if (f.matrix == Matrix::A) {
    const uint32_t tile = reg / (halves * steps), within = reg % (halves * steps);
    return {tile * 16 + within % halves * 8 + group, within / halves * 4 * each + along};
  }
  return {reg % steps * 4 * each + along, reg / steps * 8 + group};
}

constexpr FragmentForm wmma_fragment(Matrix matrix, uint32_t m, uint32_t n, uint32_t k, ptx::Type type) {
  FragmentForm f{matrix, m, n, k, 32};
  switch (type) {
    case ptx::Type::F64:
      f.bits = 64;
      break;
    case ptx::Type::F16:
    case ptx::Type::BF16:
      f.bits = 16;
      break;
    case ptx::Type::S8:
    case ptx::Type::U8:
      f.bits = 8;
      break;
    case ptx::Type::S4:
    case ptx::Type::U4:
      f.bits = 4;
      break;
    case ptx::Type::B1:
      f.bits = 1;
      break;
    default:  // f32, s32, tf32
      break;
  }
  if (type == ptx::Type::F16 && matrix != Matrix::C) f.copies = 16 / elements_of(f);
  return f;
}

struct WmmaShape {
  ptx::Mod mod;
  uint32_t m, n, k;
};
inline constexpr WmmaShape kWmmaShapes[] = {
    {ptx::Mod::m16n16k16, 16, 16, 16}, {ptx::Mod::m8n32k16, 8, 32, 16}, {ptx::Mod::m32n8k16, 32, 8, 16},
    {ptx::Mod::m16n16k8, 16, 16, 8},   {ptx::Mod::m8n8k4, 8, 8, 4},     {ptx::Mod::m8n8k32, 8, 8, 32},
    {ptx::Mod::m8n8k128, 8, 8, 128},
};
inline const WmmaShape* wmma_shape(const ptx::Instruction& inst) {
  for (const WmmaShape& shape : kWmmaShapes) {
    if (inst.has(shape.mod)) return &shape;
  }
  return nullptr;
}

}  // namespace assay::vgpu::ASSAY_BUILD
