// Where the elements of mma.sync's matrices live: from [lane][register] to
// [row][column], for all shapes but m8n8k4 of f16.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay::numerics {

inline int element_bits(const std::string& kind) {
  if (kind == "f64") return 64;
  if (kind == "f16" || kind == "bf16") return 16;
  if (kind == "e4m3" || kind == "e5m2" || kind == "u8" || kind == "s8") return 8;
  if (kind == "u4" || kind == "s4") return 4;
  return kind == "b1" ? 1 : 32;
}

inline std::vector<uint64_t> matrix_a(const uint64_t* registers, int count, int m, int k,
                                      const std::string& kind) {
  const int bits = element_bits(kind);
  const int per = bits == 64 ? 1 : 32 / bits;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  std::vector<uint64_t> a(static_cast<size_t>(m * k));
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < count; ++r) {
      for (int i = 0; i < per; ++i) {
        const int row = lane / 4 + (m == 16 ? 8 * (r & 1) : 0);
        const int block = m == 16 ? r >> 1 : r;
        const int column = (block * 4 + lane % 4) * per + i;
        a[static_cast<size_t>(row * k + column)] = (registers[lane * count + r] >> (i * bits)) & mask;
      }
    }
  }
  return a;
}

// Column by column: element [k][n] is at n * k_size + k.
inline std::vector<uint64_t> matrix_b(const uint64_t* registers, int count, int n, int k,
                                      const std::string& kind) {
  const int bits = element_bits(kind);
  const int per = bits == 64 ? 1 : 32 / bits;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  std::vector<uint64_t> b(static_cast<size_t>(n * k));
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < count; ++r) {
      for (int i = 0; i < per; ++i) {
        const int row = (r * 4 + lane % 4) * per + i;
        b[static_cast<size_t>(lane / 4 * k + row)] = (registers[lane * count + r] >> (i * bits)) & mask;
      }
    }
  }
  return b;
}

inline std::vector<uint64_t> matrix_c(const uint64_t* registers, int count, int m, int n,
                                      const std::string& kind) {
  const int bits = element_bits(kind);
  const int per = bits == 16 ? 2 : 1;
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  std::vector<uint64_t> c(static_cast<size_t>(m * n));
  for (int lane = 0; lane < 32; ++lane) {
    for (int e = 0; e < count * per; ++e) {
      const int row = lane / 4 + 8 * (e >> 1);
      const int column = lane % 4 * 2 + (e & 1);
      c[static_cast<size_t>(row * n + column)] =
          (registers[lane * count + e / per] >> (e % per * bits)) & mask;
    }
  }
  return c;
}

}  // namespace assay::numerics
