// The video instructions: arithmetic on bytes and halves of words, with a
// second operation or a merge into part of a word, and their SIMD forms.
#pragma once

#include "numerics/integer.h"

namespace assay::numerics {

enum class VideoOp : uint8_t { Add, Sub, AbsDiff, Min, Max, Shl, Shr, Average };
enum class Compare : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };

// Which part of a word: all of it, byte 0..3 or half 0..1.
enum class Part : uint8_t { Word, B0, B1, B2, B3, H0, H1 };

inline int64_t part_of(uint32_t word, Part part, bool is_signed) {
  if (part == Part::Word) return is_signed ? static_cast<int64_t>(static_cast<int32_t>(word)) : word;
  if (part >= Part::H0) {
    const auto h =
        static_cast<uint16_t>(word >> (16 * (static_cast<int>(part) - static_cast<int>(Part::H0))));
    return is_signed ? static_cast<int64_t>(static_cast<int16_t>(h)) : h;
  }
  const auto b = static_cast<uint8_t>(word >> (8 * (static_cast<int>(part) - static_cast<int>(Part::B0))));
  return is_signed ? static_cast<int64_t>(static_cast<int8_t>(b)) : b;
}

inline int64_t clamp_to(int64_t x, int bits, bool is_signed) {
  const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = (int64_t{1} << (bits - (is_signed ? 1 : 0))) - 1;
  return x < low ? low : x > high ? high : x;
}

inline int64_t video_operate(VideoOp op, int64_t a, int64_t b) {
  switch (op) {
    case VideoOp::Add:
      return a + b;
    case VideoOp::Sub:
      return a - b;
    case VideoOp::AbsDiff:
      return a > b ? a - b : b - a;
    case VideoOp::Min:
      return a < b ? a : b;
    case VideoOp::Max:
      return a > b ? a : b;
    case VideoOp::Average:  // rounds half away from zero, towards the sum's sign
      return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    default:
      return 0;
  }
}

inline bool video_compare(Compare op, int64_t a, int64_t b) {
  switch (op) {
    case Compare::Eq:
      return a == b;
    case Compare::Ne:
      return a != b;
    case Compare::Lt:
      return a < b;
    case Compare::Le:
      return a <= b;
    case Compare::Gt:
      return a > b;
    case Compare::Ge:
      return a >= b;
  }
  return false;
}

// What becomes of the 34-bit intermediate: saturation, then a merge into part
// of c, or a second operation with c, or nothing.
struct VideoTail {
  enum class Kind : uint8_t { None, Merge, Add, Min, Max };
  Kind kind = Kind::None;
  bool d_signed = false;
  bool sat = false;
  Part merge = Part::Word;
};

// As the assembler's own code does it, which departs from the manual: a word is not clamped from
// above to u32; a negative value wins .max for u32; an unsaturated value is merged from its own
// place in the word, and a saturated one counts as unsigned.
inline uint32_t video_finish(int64_t x, const VideoTail& tail, uint32_t c) {
  if (tail.kind == VideoTail::Kind::Merge) {
    const bool half = tail.merge >= Part::H0;
    const uint32_t bits = half ? 16 : 8;
    const auto index = static_cast<uint32_t>(tail.merge) - static_cast<uint32_t>(half ? Part::H0 : Part::B0);
    auto value = static_cast<uint32_t>(x) >> (tail.sat ? 0 : index * bits);
    const uint32_t most = (1u << (tail.d_signed ? bits - 1 : bits)) - 1;
    if (tail.sat && value > most) value = most;
    return bit_field_insert(value, c, index * bits, bits);
  }
  if (tail.sat)
    x = tail.d_signed ? clamp_to(x, 32, true) : static_cast<int64_t>(static_cast<uint32_t>(x < 0 ? 0 : x));
  const auto value = static_cast<uint32_t>(x);
  const bool less = tail.d_signed ? static_cast<int32_t>(value) < static_cast<int32_t>(c)
                                  : static_cast<uint64_t>(x) < static_cast<uint64_t>(c);
  switch (tail.kind) {
    case VideoTail::Kind::Add:
      return value + c;
    case VideoTail::Kind::Min:
      return less ? value : c;
    case VideoTail::Kind::Max:
      return less ? c : value;
    default:
      return value;
  }
}

// vadd, vsub, vabsdiff, vmin, vmax.
inline uint32_t video(VideoOp op, uint32_t a, Part a_part, bool a_signed, uint32_t b, Part b_part,
                      bool b_signed, const VideoTail& tail, uint32_t c) {
  const int64_t x = part_of(a, a_part, a_signed);
  const int64_t y = part_of(b, b_part, b_signed);
  return video_finish(video_operate(op, x, y), tail, c);
}

// vshl, vshr: b is unsigned; .wrap takes five bits of it, .clamp stops at 32.
inline uint32_t video_shift(bool left, bool wrap, uint32_t a, Part a_part, bool a_signed, uint32_t b,
                            Part b_part, const VideoTail& tail, uint32_t c) {
  const int64_t x = part_of(a, a_part, a_signed);
  const auto amount = static_cast<uint32_t>(part_of(b, b_part, false));
  const uint32_t n = funnel_amount(amount, !wrap);
  const int64_t shifted = left ? x * (int64_t{1} << n) : x >> n;
  // A saturated left shift follows the manual; the assembler's code for it does not.
  return video_finish(tail.sat ? clamp_to(shifted, 32, tail.d_signed) : shifted, tail, c);
}

// vset: 1 or 0.
inline uint32_t video_set(Compare op, uint32_t a, Part a_part, bool a_signed, uint32_t b, Part b_part,
                          bool b_signed, const VideoTail& tail, uint32_t c) {
  const bool yes = video_compare(op, part_of(a, a_part, a_signed), part_of(b, b_part, b_signed));
  return video_finish(yes ? 1 : 0, tail, c);
}

// vmad: (a * b) + c, with the product or c negated (or .po: plus one), shifted right by 0, 7 or 15.
struct VideoMad {
  bool negate_product = false;
  bool negate_c = false;
  bool plus_one = false;
  int shift = 0;
  bool sat = false;
};

// Whole words count as signed, whatever their type says; the type of d says nothing. The sum is
// signed, and is shifted and clamped so, if an operand is signed or negated.
inline uint32_t video_mad(const VideoMad& mode, uint32_t a, Part a_part, bool a_signed, uint32_t b,
                          Part b_part, bool b_signed, uint32_t c, bool /*d_signed*/ = false) {
  const int64_t x = part_of(a, a_part, a_signed || a_part == Part::Word);
  const int64_t y = part_of(b, b_part, b_signed || b_part == Part::Word);
  const int64_t product = mode.negate_product ? -(x * y) : x * y;
  const auto addend = static_cast<int64_t>(static_cast<int32_t>(c));
  const int64_t sum = product + (mode.negate_c ? -addend : addend) + (mode.plus_one ? 1 : 0);
  const bool is_signed = a_signed || b_signed || mode.negate_c || mode.negate_product;
  const int64_t shifted = is_signed || mode.shift == 0
                              ? sum >> mode.shift
                              : static_cast<int64_t>(static_cast<uint64_t>(sum) >> mode.shift);
  return static_cast<uint32_t>(mode.sat ? clamp_to(shifted, 32, is_signed) : shifted);
}

// The SIMD forms: four bytes or two halves, under a mask of those that are
// written; the others keep c's. With `accumulate` the results add up into c.
struct SimdVideo {
  int width = 16;  // 8 or 16
  bool a_signed = false;
  bool b_signed = false;
  bool d_signed = false;
  bool sat = false;
  bool accumulate = false;
  uint32_t mask = 0xf;
};

template <class Each>
inline uint32_t simd_video(const SimdVideo& mode, uint32_t a, uint32_t b, uint32_t c, Each&& operate) {
  uint32_t r = c;
  uint32_t total = c;
  const int count = 32 / mode.width;
  for (int i = 0; i < count; ++i) {
    if (((mode.mask >> i) & 1) == 0) continue;
    const auto part = static_cast<Part>(static_cast<int>(mode.width == 8 ? Part::B0 : Part::H0) + i);
    int64_t x = operate(part_of(a, part, mode.a_signed), part_of(b, part, mode.b_signed));
    if (mode.sat) x = clamp_to(x, mode.width, mode.d_signed);
    r = bit_field_insert(static_cast<uint32_t>(x), r, static_cast<uint32_t>(i * mode.width),
                         static_cast<uint32_t>(mode.width));
    total += static_cast<uint32_t>(x);
  }
  return mode.accumulate ? total : r;
}

}  // namespace assay::numerics
