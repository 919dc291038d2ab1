#include "train/arithmetic.h"

#include <cmath>

#include "base/random.h"
#include "numerics/lanes.h"

namespace assay::train {

namespace {

using numerics::bits_of;
using numerics::f32_of;

// A bijection of 32 bits whose values look independent (the finaliser of MurmurHash3).
inline uint32_t scatter(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

constexpr uint32_t kExponent = 0x7f800000u;

inline float bf16_nearest(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u;
  return f32_of((b & kExponent) == kExponent ? b : rounded);
}

inline float bf16_by_chance(float x, uint32_t chance) {
  const uint32_t b = bits_of(x);
  return f32_of((b & kExponent) == kExponent ? b : (b + (chance & 0xffffu)) & 0xffff0000u);
}

// Up to some units in the last place up or down. Subnormals stay: what is lost there is not relative.
inline float f32_by_chance(float x, uint32_t chance, uint32_t units) {
  const uint32_t b = bits_of(x);
  const uint32_t moved = b + (chance >> 16) % (2 * units + 1) - units;
  return f32_of((b & kExponent) == kExponent || (b & kExponent) == 0 ? b : moved);
}

// Any other type: to nearest, through the exact conversion of the contract's types.
float rounded(DType dtype, float x) {
  return static_cast<float>(contract::rounded(dtype, static_cast<double>(x)));
}

}  // namespace

void round_to(Team& team, DType dtype, std::span<float> values, uint64_t seed, uint32_t units) {
  if (dtype == DType::f64 || (dtype == DType::f32 && seed == 0)) return;
  float* const all = values.data();
  team.pieces(static_cast<int64_t>(values.size()), kElementsOfPiece, [&](int64_t first, int64_t n) {
    float* const x = all + first;
    const auto salt = static_cast<uint32_t>(mix(seed, static_cast<uint64_t>(first)));
    if (dtype == DType::bf16 && seed == 0) {
      for (int64_t i = 0; i < n; ++i) x[i] = bf16_nearest(x[i]);
    } else if (dtype == DType::bf16) {
      for (int64_t i = 0; i < n; ++i) x[i] = bf16_by_chance(x[i], scatter(salt + static_cast<uint32_t>(i)));
    } else if (dtype == DType::f32) {
      for (int64_t i = 0; i < n; ++i)
        x[i] = f32_by_chance(x[i], scatter(salt + static_cast<uint32_t>(i)), units);
    } else if (seed == 0) {
      for (int64_t i = 0; i < n; ++i) x[i] = rounded(dtype, x[i]);
    } else {
      const int bits = numerics::info(contract::info(dtype).format).precision();
      for (int64_t i = 0; i < n; ++i) {
        const float chance = static_cast<float>(scatter(salt + static_cast<uint32_t>(i))) * 0x1p-32f;
        x[i] = rounded(dtype, x[i] * (1 + std::ldexp(chance - 0.5f, 1 - bits)));
      }
    }
  });
}

void round_to(Team& team, DType dtype, std::span<double> values, uint64_t, uint32_t) {
  if (dtype == DType::f64) return;
  team.pieces(static_cast<int64_t>(values.size()), kElementsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; ++i)
      values[static_cast<std::size_t>(i)] = contract::rounded(dtype, values[static_cast<std::size_t>(i)]);
  });
}

}  // namespace assay::train
