// Reproducible random numbers: equal seeds give equal numbers on every machine, which the standard
// library's distributions do not promise. The generator is SplitMix64 (Steele, Lea and Flood 2014).
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace assay {

// The step of SplitMix64's state: 2^64 over the golden ratio, odd.
inline constexpr uint64_t kGoldenStep = 0x9e3779b97f4a7c15ull;

// A bijection under which neighbours have nothing in common, except that 0 stays 0.
inline uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
inline uint64_t mix(uint64_t x) {
  return scramble(x + kGoldenStep);
}
inline uint64_t mix(uint64_t a, uint64_t b) {
  return mix(a ^ mix(b));
}
// FNV-1a.
inline uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed)) {}

  uint64_t bits() { return mix(state_++); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double p) { return uniform() < p; }
  // low <= x <= high
  int64_t between(int64_t low, int64_t high) {
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
    __extension__ using Wide = unsigned __int128;
    const uint64_t draw =
        span == 0 ? bits() : static_cast<uint64_t>((static_cast<Wide>(bits()) * span) >> 64);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + draw);
  }
  double normal() {
    if (spare_) {
      spare_ = false;
      return kept_;
    }
    const double r = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    kept_ = r * std::sin(angle);
    spare_ = true;
    return r * std::cos(angle);
  }

 private:
  uint64_t state_;
  double kept_ = 0;
  bool spare_ = false;
};

}  // namespace assay
