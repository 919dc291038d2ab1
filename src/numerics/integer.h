// Integer instructions whose semantics are more than one C++ operator. Shifts,
// positions and lengths follow PTX, also where they are out of range.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "numerics/formats.h"

namespace assay::numerics {

// ---- products and sums ----------------------------------------------------

template <class Int>
inline Int mul_hi(Int a, Int b) {
  using Wide = std::conditional_t<std::is_signed_v<Int>, int128, uint128>;
  return static_cast<Int>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(Int) * 8));
}
template <>
inline int32_t mul_hi(int32_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<int64_t>(a) * b) >> 32);
}
template <>
inline uint32_t mul_hi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}

// The 48-bit product of the operands' low 24 bits.
inline uint64_t product24(uint32_t a, uint32_t b) {
  return static_cast<uint64_t>(a & 0xffffffu) * (b & 0xffffffu);
}
inline int64_t product24(int32_t a, int32_t b) {
  const auto low24 = [](int32_t x) { return static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8; };
  return static_cast<int64_t>(low24(a)) * low24(b);
}
template <class Int>
inline Int mul24_lo(Int a, Int b) {
  return static_cast<Int>(product24(a, b));
}
template <class Int>
inline Int mul24_hi(Int a, Int b) {  // bits 47..16
  return static_cast<Int>(product24(a, b) >> 16);
}

// add.sat.s32, sub.sat.s32, mad.hi.sat.s32: the exact value, clamped.
inline int32_t clamp_s32(int64_t x) {
  return static_cast<int32_t>(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
}
inline int32_t add_sat(int32_t a, int32_t b) {
  return clamp_s32(static_cast<int64_t>(a) + b);
}
inline int32_t sub_sat(int32_t a, int32_t b) {
  return clamp_s32(static_cast<int64_t>(a) - b);
}
inline int32_t mad_hi_sat(int32_t a, int32_t b, int32_t c) {
  return clamp_s32(static_cast<int64_t>(mul_hi(a, b)) + c);
}
inline int32_t mad24_hi_sat(int32_t a, int32_t b, int32_t c) {
  return clamp_s32(static_cast<int64_t>(mul24_hi(a, b)) + c);
}

// c + |a - b|, modulo the width.
template <class Int>
inline Int sad(Int a, Int b, Int c) {
  using U = std::make_unsigned_t<Int>;
  const U difference = a > b ? static_cast<U>(static_cast<U>(a) - static_cast<U>(b))
                             : static_cast<U>(static_cast<U>(b) - static_cast<U>(a));
  return static_cast<Int>(static_cast<U>(static_cast<U>(c) + difference));
}

// Carry chains: add.cc and addc; sub.cc and subc, where CC.CF holds the borrow.
template <class U>
inline U add_carry(U a, U b, bool in, bool& out) {
  const U partial = static_cast<U>(a + b);
  const U sum = static_cast<U>(partial + (in ? 1 : 0));
  out = (partial < a) | (sum < partial);
  return sum;
}
template <class U>
inline U sub_borrow(U a, U b, bool in, bool& out) {
  const U partial = static_cast<U>(a - b);
  const U difference = static_cast<U>(partial - (in ? 1 : 0));
  out = (a < b) | (partial < static_cast<U>(in ? 1 : 0));
  return difference;
}

// Four products of bytes, or two of a half with a byte, added to c.
template <bool ASigned, bool BSigned>
inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i) {
    const auto x = static_cast<uint8_t>(a >> (8 * i));
    const auto y = static_cast<uint8_t>(b >> (8 * i));
    const int32_t p = (ASigned ? static_cast<int8_t>(x) : x) * (BSigned ? static_cast<int8_t>(y) : y);
    c += static_cast<uint32_t>(p);
  }
  return c;
}
template <bool ASigned, bool BSigned, bool High>
inline uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 2; ++i) {
    const auto x = static_cast<uint16_t>(a >> (16 * i));
    const auto y = static_cast<uint8_t>(b >> (8 * (i + (High ? 2 : 0))));
    const int32_t p = (ASigned ? static_cast<int16_t>(x) : x) * (BSigned ? static_cast<int8_t>(y) : y);
    c += static_cast<uint32_t>(p);
  }
  return c;
}

// ---- bits -------------------------------------------------------------------

// Shifts by more than the width give zero, or the sign.
template <class U>
inline U shl(U a, uint32_t n) {
  constexpr uint32_t kBits = sizeof(U) * 8;
  return n >= kBits ? U{0} : static_cast<U>(a << (n & (kBits - 1)));
}
template <class Int>
inline Int shr(Int a, uint32_t n) {
  constexpr uint32_t kBits = sizeof(Int) * 8;
  if constexpr (std::is_signed_v<Int>) return static_cast<Int>(a >> (n >= kBits ? kBits - 1 : n));
  return n >= kBits ? Int{0} : static_cast<Int>(a >> (n & (kBits - 1)));
}

inline uint32_t funnel_amount(uint32_t n, bool clamp) {
  return clamp ? (n > 32 ? 32 : n) : n & 31;
}
// shf: the 64 bits b:a shifted, the high (left) or low (right) word of them.
inline uint32_t shf_l(uint32_t a, uint32_t b, uint32_t n, bool clamp) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  return static_cast<uint32_t>((both << funnel_amount(n, clamp)) >> 32);
}
inline uint32_t shf_r(uint32_t a, uint32_t b, uint32_t n, bool clamp) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  return static_cast<uint32_t>(both >> funnel_amount(n, clamp));
}

template <class U>
inline U reverse_bits(U x) {
  U r = 0;
  for (size_t i = 0; i < sizeof(U) * 8; ++i) r = static_cast<U>(r << 1 | ((x >> i) & 1));
  return r;
}
template <>
inline uint32_t reverse_bits(uint32_t x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}

// bfe: `length` bits of a from `position`, extended by the sign bit of the field if Int is signed.
template <class Int>
inline Int bit_field_extract(Int a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<Int>;
  constexpr uint32_t kBits = sizeof(Int) * 8;
  if constexpr (kBits == 32) {  // the 64-bit forms take all of their operands' bits
    position &= 0xff;
    length &= 0xff;
  }
  if (length == 0) return 0;
  const uint64_t end = static_cast<uint64_t>(position) + length;
  const uint32_t last = end < kBits ? static_cast<uint32_t>(end) - 1 : kBits - 1;
  const bool sign = std::is_signed_v<Int> && ((static_cast<U>(a) >> last) & 1) != 0;
  const U fill = sign ? static_cast<U>(~U{0}) : U{0};
  if (position >= kBits) return static_cast<Int>(fill);
  const U field = static_cast<U>(static_cast<U>(a) >> position);
  const uint32_t kept = last - position + 1;  // 1 .. kBits
  if (kept == kBits) return static_cast<Int>(field);
  const U mask = static_cast<U>((U{1} << kept) - 1);
  return static_cast<Int>((field & mask) | (fill & ~mask));
}

// bfi: the low `length` bits of a placed into b at `position`.
template <class U>
inline U bit_field_insert(U a, U b, uint32_t position, uint32_t length) {
  constexpr uint32_t kBits = sizeof(U) * 8;
  if constexpr (kBits == 32) {
    position &= 0xff;
    length &= 0xff;
  }
  if (position >= kBits || length == 0) return b;
  const U mask = static_cast<U>((length >= kBits ? ~U{0} : static_cast<U>((U{1} << length) - 1)) << position);
  return static_cast<U>((static_cast<U>(a << position) & mask) | (b & ~mask));
}

// bfind: the place of the most significant bit that differs from the sign; all ones if there is none.
template <class Int>
inline uint32_t bit_find(Int a, bool shift_amount) {
  using U = std::make_unsigned_t<Int>;
  constexpr uint32_t kBits = sizeof(Int) * 8;
  U x = static_cast<U>(a);
  if (std::is_signed_v<Int> && a < 0) x = static_cast<U>(~x);
  if (x == 0) return 0xffffffffu;
  const auto zeros = static_cast<uint32_t>(std::countl_zero(x));
  return shift_amount ? zeros : kBits - 1 - zeros;
}

// fns: the place of the |offset|-th set bit of mask from base, upwards or downwards; all ones if none.
inline uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == 0) return base < 32 && ((mask >> base) & 1) != 0 ? base : 0xffffffffu;
  if (offset == INT32_MIN && base >= 32) return 0;  // as the hardware does, though nothing is there
  const int32_t step = offset > 0 ? 1 : -1;
  int64_t left = offset > 0 ? static_cast<int64_t>(offset) : -static_cast<int64_t>(offset);
  for (auto at = static_cast<int64_t>(base); at >= 0 && at < 32; at += step) {
    if (((mask >> at) & 1) == 0) continue;
    if (--left == 0) return static_cast<uint32_t>(at);
  }
  return 0xffffffffu;
}

// bmsk and szext; `clamp` or wrap out-of-range operands.
inline uint32_t bit_mask(uint32_t position, uint32_t width, bool clamp) {
  position = funnel_amount(position, clamp);
  width = funnel_amount(width, clamp);
  const uint64_t mask = (uint64_t{1} << width) - 1;
  return static_cast<uint32_t>(mask << position);
}
template <class Int>
inline Int extend(Int a, uint32_t bits, bool clamp) {
  bits = funnel_amount(bits, clamp);
  if (bits == 0) return 0;
  const uint32_t unused = 32 - bits;
  return static_cast<Int>(static_cast<Int>(static_cast<uint32_t>(a) << unused) >> unused);
}

// lop3: any function of three bits, by its truth table (0xf0 is a, 0xcc is b, 0xaa is c).
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint8_t table) {
  uint32_t r = 0;
  r |= table & 0x01 ? ~a & ~b & ~c : 0;
  r |= table & 0x02 ? ~a & ~b & c : 0;
  r |= table & 0x04 ? ~a & b & ~c : 0;
  r |= table & 0x08 ? ~a & b & c : 0;
  r |= table & 0x10 ? a & ~b & ~c : 0;
  r |= table & 0x20 ? a & ~b & c : 0;
  r |= table & 0x40 ? a & b & ~c : 0;
  r |= table & 0x80 ? a & b & c : 0;
  return r;
}

// ---- prmt -------------------------------------------------------------------

enum class Permute : uint8_t { Default, F4e, B4e, Rc8, Ecl, Ecr, Rc16 };

inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t r = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t nibble = selector >> (4 * i);
    const auto byte = static_cast<uint32_t>(bytes >> (8 * (nibble & 7))) & 0xff;
    const uint32_t sign = (byte & 0x80) != 0 ? 0xffu : 0u;
    r |= ((nibble & 8) != 0 ? sign : byte) << (8 * i);
  }
  return r;
}

inline uint32_t prmt(Permute mode, uint32_t a, uint32_t b, uint32_t selector) {
  // The modes are tables of the default mode's selector, by the two low bits of c.
  constexpr uint32_t kTables[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e: four bytes forwards
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e: backwards
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8: one byte everywhere
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl: clamp to the left
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr: clamp to the right
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16: one half everywhere
  };
  if (mode == Permute::Default) return prmt(a, b, selector);
  return prmt(a, b, kTables[static_cast<int>(mode) - 1][selector & 3]);
}

}  // namespace assay::numerics
