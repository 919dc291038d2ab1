// The inline conversions against `convert`, which the golden vectors hold to the hardware.
#include "numerics/convert.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace assay::numerics {
namespace {

std::vector<uint64_t> patterns64() {
  std::vector<uint64_t> all;
  for (uint64_t e = 1015; e < 1095; ++e) {  // around all integer limits
    for (const uint64_t fraction :
         {uint64_t{0}, uint64_t{1}, uint64_t{0xfffffffffffff}, uint64_t{0x8000000000000},
          uint64_t{0xffffffe000000}, uint64_t{0xfffffff000000}}) {
      all.push_back(e << 52 | fraction);
      all.push_back(uint64_t{1} << 63 | e << 52 | fraction);
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t r = random();
    all.push_back(i % 2 == 0 ? r : (r & 0x80ffffffffffffffu) + 0x3ff0000000000000u);
  }
  for (const double x : {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, HUGE_VAL, -HUGE_VAL})
    all.push_back(bits_of(x));
  all.push_back(0x7ff8000000000000u);
  all.push_back(0xfff0000000000001u);
  return all;
}

std::vector<uint32_t> patterns32() {
  std::vector<uint32_t> all;
  for (const uint64_t p : patterns64()) {
    all.push_back(bits_of(static_cast<float>(f64_of(p))));
    all.push_back(static_cast<uint32_t>(p >> 13));
  }
  return all;
}

template <class Int, Rounding R>
void check_to_integer(Num to) {
  for (const uint64_t p : patterns64()) {
    const uint64_t ours = static_cast<std::make_unsigned_t<Int>>(to_integer<Int, R>(f64_of(p)));
    ASSERT_EQ(ours, convert({to, Num::F64, R, true}, p)) << std::hexfloat << f64_of(p);
  }
  for (const uint32_t p : patterns32()) {
    const uint64_t ours = static_cast<std::make_unsigned_t<Int>>(to_integer<Int, R>(f32_of(p)));
    ASSERT_EQ(ours, convert({to, Num::F32, R, true}, p)) << std::hexfloat << f32_of(p);
  }
}

template <class Int>
void check_all_modes(Num to) {
  check_to_integer<Int, Rounding::NearestEven>(to);
  check_to_integer<Int, Rounding::TowardZero>(to);
  check_to_integer<Int, Rounding::Down>(to);
  check_to_integer<Int, Rounding::Up>(to);
}

TEST(Convert, FloatToInteger) {
  check_all_modes<int8_t>(Num::S8);
  check_all_modes<uint8_t>(Num::U8);
  check_all_modes<int16_t>(Num::S16);
  check_all_modes<uint16_t>(Num::U16);
  check_all_modes<int32_t>(Num::S32);
  check_all_modes<uint32_t>(Num::U32);
  check_all_modes<int64_t>(Num::S64);
  check_all_modes<uint64_t>(Num::U64);
}

template <class Int, Rounding R>
void check_from_integer(Num from) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    uint64_t r = random() >> (random() % 64);
    if (i % 3 == 0) r = ~r;
    const auto x = static_cast<Int>(r);
    const uint64_t code = static_cast<std::make_unsigned_t<Int>>(x);
    ASSERT_EQ(bits_of(integer_to_f32<R>(x)), convert({Num::F32, from, R}, code)) << code;
    ASSERT_EQ(bits_of(integer_to_f64<R>(x)), convert({Num::F64, from, R}, code)) << code;
  }
}

template <Rounding R>
void check_integers() {
  check_from_integer<int32_t, R>(Num::S32);
  check_from_integer<uint32_t, R>(Num::U32);
  check_from_integer<int64_t, R>(Num::S64);
  check_from_integer<uint64_t, R>(Num::U64);
  check_from_integer<int16_t, R>(Num::S16);
}

TEST(Convert, IntegerToFloat) {
  check_integers<Rounding::NearestEven>();
  check_integers<Rounding::TowardZero>();
  check_integers<Rounding::Down>();
  check_integers<Rounding::Up>();
}

template <Rounding R>
void check_between_floats() {
  Conversion narrow{Num::F32, Num::F64, R};
  Conversion narrow_ftz = narrow;
  narrow_ftz.ftz = true;
  Conversion round32{Num::F32, Num::F32, R, true};
  Conversion round64{Num::F64, Num::F64, R, true};
  for (const uint64_t p : patterns64()) {
    ASSERT_EQ(bits_of(f64_to_f32<R>(f64_of(p))), convert(narrow, p));
    ASSERT_EQ((bits_of(f64_to_f32<R, true>(f64_of(p)))), convert(narrow_ftz, p));
    ASSERT_EQ(bits_of(round_f64<R>(f64_of(p))), convert(round64, p));
  }
  for (const uint32_t p : patterns32()) ASSERT_EQ(bits_of(round_f32<R>(f32_of(p))), convert(round32, p));
}

TEST(Convert, BetweenFloats) {
  check_between_floats<Rounding::NearestEven>();
  check_between_floats<Rounding::TowardZero>();
  check_between_floats<Rounding::Down>();
  check_between_floats<Rounding::Up>();
  for (const uint32_t p : patterns32()) {
    ASSERT_EQ(bits_of(f32_to_f64(f32_of(p))), convert({Num::F64, Num::F32}, p));
    Conversion ftz{Num::F64, Num::F32};
    ftz.ftz = true;
    ASSERT_EQ(bits_of(f32_to_f64<true>(f32_of(p))), convert(ftz, p));
  }
}

TEST(Convert, PackedPairs) {
  // The first operand is the high half.
  EXPECT_EQ(pack_pair({Num::BF16, Num::F32}, 1.0f, -2.0f), 0x3f80c000u);
  EXPECT_EQ(
      pack_pair({Num::E4M3, Num::F32, Rounding::NearestEven, false, false, false, false, true}, 500.0f, 1.0f),
      0x7e38u);
  EXPECT_EQ((pack_saturated<8, false>(300, -5, 0xabcd1234u)), 0x1234ff00u);
  EXPECT_EQ((pack_saturated<16, true>(-40000, 40000, 0)), 0x80007fffu);
}

}  // namespace
}  // namespace assay::numerics
