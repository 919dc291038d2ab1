// The tensor-core model against an H200's results, and the fast functions
// against the definition.
#include "numerics/tensor_core.h"

#include <gtest/gtest.h>

#include <random>

#include "folders.h"
#include "golden/golden.h"
#include "mma_layout.h"
#include "numerics/lanes.h"

namespace assay::numerics {
namespace {

std::vector<golden::Record> vectors() {
  return golden::read(std::string(kSourceFolder) + "/tests/golden/vectors/mma.gold.zst");
}

template <class T>
std::vector<T> as(const std::vector<uint64_t>& codes) {
  std::vector<T> out;
  for (const uint64_t code : codes) {
    if constexpr (std::is_same_v<T, float>) {
      out.push_back(f32_of(static_cast<uint32_t>(code)));
    } else if constexpr (std::is_same_v<T, double>) {
      out.push_back(f64_of(code));
    } else {
      out.push_back(static_cast<T>(code));
    }
  }
  return out;
}

template <class T>
std::vector<uint64_t> codes_of(const std::vector<T>& values) {
  std::vector<uint64_t> out;
  for (const T v : values) {
    if constexpr (std::is_floating_point_v<T>) {
      out.push_back(bits_of(v));
    } else {
      out.push_back(static_cast<std::make_unsigned_t<T>>(v));
    }
  }
  return out;
}

std::vector<int16_t> widened(const std::vector<uint64_t>& codes, const std::string& kind) {
  const int unused = 64 - element_bits(kind);
  std::vector<int16_t> out;
  for (const uint64_t code : codes) {
    const auto value = static_cast<int64_t>(code << unused) >> unused;
    out.push_back(static_cast<int16_t>(kind[0] == 's' ? value : static_cast<int64_t>(code)));
  }
  return out;
}

Format fp8(const std::string& kind) {
  return kind == "e4m3" ? Format::E4M3 : Format::E5M2;
}

Rounding rounding_of(const std::string& form) {
  if (form.find(".rz.") != std::string::npos) return Rounding::TowardZero;
  if (form.find(".rm.") != std::string::npos) return Rounding::Down;
  if (form.find(".rp.") != std::string::npos) return Rounding::Up;
  return Rounding::NearestEven;
}

std::vector<uint32_t> packed_bits(const std::vector<uint64_t>& bits) {
  std::vector<uint32_t> words(bits.size() / 32);
  for (size_t i = 0; i < bits.size(); ++i) words[i / 32] |= static_cast<uint32_t>(bits[i]) << (i % 32);
  return words;
}

using Codes = std::vector<uint64_t>;

// D as codes, by the functions of the room; empty where there is none.
Codes multiply(const golden::Record& r, const Codes& a, const Codes& b, const Codes& c) {
  const MmaShape shape{r.shape[0], r.shape[1], r.shape[2]};
  const std::string& kind = r.kinds[1];
  if (r.kinds[0] == "f32") {
    std::vector<float> d = as<float>(c);
    if (kind == "f16") mma_f16_f32(shape, as<uint16_t>(a).data(), as<uint16_t>(b).data(), d.data(), d.data());
    if (kind == "bf16")
      mma_bf16_f32(shape, as<uint16_t>(a).data(), as<uint16_t>(b).data(), d.data(), d.data());
    if (kind == "tf32")
      mma_tf32_f32(shape, as<uint32_t>(a).data(), as<uint32_t>(b).data(), d.data(), d.data());
    if (kind[0] == 'e') {
      mma_fp8_f32(shape, fp8(kind), fp8(r.kinds[2]), as<uint8_t>(a).data(), as<uint8_t>(b).data(), d.data(),
                  d.data());
    }
    return codes_of(d);
  }
  if (r.kinds[0] == "f16") {
    std::vector<uint16_t> d = as<uint16_t>(c);
    if (kind == "f16") mma_f16_f16(shape, as<uint16_t>(a).data(), as<uint16_t>(b).data(), d.data(), d.data());
    if (kind[0] == 'e') {
      mma_fp8_f16(shape, fp8(kind), fp8(r.kinds[2]), as<uint8_t>(a).data(), as<uint8_t>(b).data(), d.data(),
                  d.data());
    }
    return codes_of(d);
  }
  if (r.kinds[0] == "f64") {
    std::vector<double> d = as<double>(c);
    mma_f64(shape, rounding_of(r.form), as<double>(a).data(), as<double>(b).data(), d.data(), d.data());
    return codes_of(d);
  }
  std::vector<int32_t> d = as<int32_t>(c);
  if (kind == "b1") {
    const auto operation = r.form.find("xor") != std::string::npos ? BitOperation::Xor : BitOperation::And;
    mma_b1(shape, operation, packed_bits(a).data(), packed_bits(b).data(), d.data(), d.data());
  } else {
    const bool saturate = r.form.find("satfinite") != std::string::npos;
    mma_s32(shape, saturate, widened(a, kind).data(), widened(b, r.kinds[2]).data(), d.data(), d.data());
  }
  return codes_of(d);
}

bool has_layout(const golden::Record& r) {
  return !(r.shape[0] == 8 && r.kinds[1] == "f16");
}

// Codes of one warp's operand.
const uint64_t* warp(const std::vector<uint64_t>& all, size_t which, int registers) {
  return all.data() + which * 32 * static_cast<size_t>(registers);
}

TEST(TensorCore, Golden) {
  size_t checked = 0;
  for (const golden::Record& r : vectors()) {
    if (!has_layout(r)) continue;
    ++checked;
    const int m = r.shape[0];
    const int n = r.shape[1];
    const int k = r.shape[2];
    int wrong = 0;
    int by_class[9] = {};
    char first[200] = "";
    for (size_t i = 0; i < r.count; ++i) {
      const Codes a = matrix_a(warp(r.operands[0], i, r.registers[1]), r.registers[1], m, k, r.kinds[1]);
      const Codes b = matrix_b(warp(r.operands[1], i, r.registers[2]), r.registers[2], n, k, r.kinds[2]);
      const Codes c = matrix_c(warp(r.operands[2], i, r.registers[3]), r.registers[3], m, n, r.kinds[3]);
      const Codes expected = matrix_c(warp(r.results, i, r.registers[0]), r.registers[0], m, n, r.kinds[0]);
      const Codes ours = multiply(r, a, b, c);
      for (size_t e = 0; e < expected.size(); ++e) {
        if (ours[e] == expected[e]) continue;
        if (wrong++ == 0) {
          std::snprintf(first, sizeof first, "case %zu element %zu: GPU %llx, ours %llx, c %llx", i, e,
                        static_cast<unsigned long long>(expected[e]),
                        static_cast<unsigned long long>(ours[e]), static_cast<unsigned long long>(c[e]));
        }
        ++by_class[i % 9];
      }
    }
    if (wrong != 0) {
      ADD_FAILURE() << r.form << ": " << wrong << " wrong; " << first << "; by class "
                    << testing::PrintToString(std::vector<int>(by_class, by_class + 9)) << " GPU";
    }
  }
  EXPECT_GE(checked, 90u);
}

uint64_t sign_bit(Format format) {
  return uint64_t{1} << (info(format).bits - 1);
}

template <class Function, class Random>
void hold_to_definition(Format format, int k, Function&& function, Random&& element) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 400; ++round) {
    const MmaShape shape{16, 8, k};
    Codes a(static_cast<size_t>(16 * k));
    Codes b(static_cast<size_t>(8 * k));
    std::vector<float> c(128);
    for (uint64_t& x : a) x = element(random, round);
    for (uint64_t& x : b) x = element(random, round);
    for (float& x : c) {
      const auto bits = static_cast<uint32_t>(random());
      x = f32_of(round % 3 == 0 ? bits : (bits & 0x83ffffffu) + 0x3e000000u);
      if (round % 5 == 0) x = random() % 2 ? 0.0f : -0.0f;
    }
    // Rows beyond the end of a matrix: zeros of either sign.
    for (int row = 0; round % 5 < 2 && row < 16; row += 3) {
      for (int i = 0; i < k; ++i) a[static_cast<size_t>(row * k + i)] = random() % 2 ? 0 : sign_bit(format);
    }
    std::vector<float> d(128);
    function(shape, a, b, c.data(), d.data());
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        const int at = row * 8 + column;
        const uint64_t slow =
            dot(format, k, &a[static_cast<size_t>(row * k)], &b[static_cast<size_t>(column * k)], Format::F32,
                bits_of(c[static_cast<size_t>(at)]));
        ASSERT_EQ(bits_of(d[static_cast<size_t>(at)]), slow) << "round " << round << " element " << at;
      }
    }
  }
}

// Random codes: all of them, or near one, or with exponents of a chosen spread.
uint64_t element16(std::mt19937_64& random, int round, uint64_t near, uint64_t near_mask) {
  const uint64_t r = random();
  if (round % 4 == 0) return r & 0xffff;
  if (r >> 60 == 0) return r & 0x8000;
  return (r & near_mask) + near;
}

// As an H200 answered for m16n8k16 on bf16: toward zero, but infinite beyond the largest number.
TEST(TensorCore, OverflowIsInfinite) {
  struct Case {
    float a, b, c;
    uint32_t result;
  };
  for (const Case& x : {Case{0x1p100f, 0x1p100f, 0, 0x7f800000},
                        {-0x1p100f, 0x1p100f, 0, 0xff800000},
                        {0x1p63f, 0x1p62f, 0, 0x7f800000},
                        {0x1p63f, 0x1p61f, 0, 0x7f800000},
                        {0x1p60f, 0x1p60f, 0x1.fffffep127f, 0x7f800000},
                        {0x1p10f, 0x1p10f, 0x1.fffffep127f, 0x7f7fffff}}) {
    uint64_t a[16], b[16];
    std::fill(a, a + 16, std::bit_cast<uint32_t>(x.a) >> 16);
    std::fill(b, b + 16, std::bit_cast<uint32_t>(x.b) >> 16);
    EXPECT_EQ(dot(Format::BF16, 16, a, b, Format::F32, std::bit_cast<uint32_t>(x.c)), x.result) << x.a;
  }
}

TEST(TensorCore, FastEqualsDefinition) {
  for (const int k : {4, 8, 16}) {
    hold_to_definition(
        Format::F16, k,
        [](MmaShape s, const Codes& a, const Codes& b, const float* c, float* d) {
          mma_f16_f32(s, as<uint16_t>(a).data(), as<uint16_t>(b).data(), c, d);
        },
        [](auto& random, int round) { return element16(random, round, 0x3000, 0x97ff); });
    hold_to_definition(
        Format::BF16, k,
        [](MmaShape s, const Codes& a, const Codes& b, const float* c, float* d) {
          mma_bf16_f32(s, as<uint16_t>(a).data(), as<uint16_t>(b).data(), c, d);
        },
        [](auto& random, int round) { return element16(random, round, 0x3e00, 0x83ff); });
    hold_to_definition(
        Format::TF32, k,
        [](MmaShape s, const Codes& a, const Codes& b, const float* c, float* d) {
          mma_tf32_f32(s, as<uint32_t>(a).data(), as<uint32_t>(b).data(), c, d);
        },
        [](auto& random, int round) {
          return element16(random, round, 0x3e00, 0x83ff) << 16 | (random() & 0xffff);
        });
  }
}

TEST(TensorCore, FastEqualsDefinitionF16Accumulator) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 400; ++round) {
    const MmaShape shape{16, 8, 16};
    Codes a(256);
    Codes b(128);
    std::vector<uint16_t> c(128);
    for (uint64_t& x : a) x = element16(random, round, 0x3000, 0x97ff);
    for (uint64_t& x : b) x = element16(random, round, 0x3000, 0x97ff);
    for (uint16_t& x : c) x = static_cast<uint16_t>(round % 5 == 0 ? random() & 0x8000 : random());
    if (round % 5 < 2) std::fill(a.begin(), a.begin() + 64, 0);
    std::vector<uint16_t> d(128);
    mma_f16_f16(shape, as<uint16_t>(a).data(), as<uint16_t>(b).data(), c.data(), d.data());
    for (size_t row = 0; row < 16; ++row) {
      for (size_t column = 0; column < 8; ++column) {
        const size_t at = row * 8 + column;
        ASSERT_EQ(d[at], dot(Format::F16, 16, &a[row * 16], &b[column * 16], Format::F16, c[at]));
      }
    }
  }
}

}  // namespace
}  // namespace assay::numerics
