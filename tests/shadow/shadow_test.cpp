// Shadow execution against the same computation in double, written down here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include "finding/message.h"
#include "folders.h"
#include "numerics/lanes.h"
#include "shadowed.h"
#include "vgpu/machine.h"

namespace assay::shadow {
namespace {

using vgpu::Address;
using vgpu::Dim3;
using vgpu::testing::Machine;

std::vector<uint16_t> random_bf16(size_t n, float low = 0.5f, float high = 1.5f, unsigned seed = 1) {
  std::vector<uint16_t> all;
  for (float x : random_floats(n, low, high, seed)) all.push_back(numerics::f32_to_bf16_rn(x));
  return all;
}
double bf16(uint16_t x) {
  return static_cast<double>(numerics::bf16_to_f32(x));
}

// out[t] = Σ_k a[t*K + k] * b[k], all in f32; the sum lives in one register.
const char* const kDot = R"(
.visible .entry dot(.param .u64 a, .param .u64 b, .param .u64 out, .param .u64 n) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<12>; .reg .f32 %f<6>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [out]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.lo.s32 %r3, %r2, %r1;
  mul.wide.u32 %rd4, %r3, 4;
  add.s64 %rd5, %rd1, %rd4;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r4, 0;
loop:
  ld.global.f32 %f2, [%rd5];
  ld.global.f32 %f3, [%rd2];
  fma.rn.f32 %f1, %f2, %f3, %f1;
  add.s64 %rd5, %rd5, 4;
  add.s64 %rd2, %rd2, 4;
  add.s32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, %r1;
  @%p1 bra loop;
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd7, %rd3, %rd6;
  st.global.f32 [%rd7], %f1;
  ret;
})";

TEST(Shadow, SumOfProductsHasItsExactValue) {
  Shadowed s(kDot);
  constexpr size_t kRows = 64, kLength = 300;
  const auto a = random_floats(kRows * kLength), b = random_floats(kLength, 0.5f, 1.5f, 2);
  const Address pa = s.machine.array(a), pb = s.machine.array(b),
                out = s.machine.array(std::vector<float>(kRows));
  ASSERT_EQ(s.machine.launch("dot", {1}, {kRows}, {pa, pb, out, kLength}).fault.message, "");
  size_t inexact = 0;
  const auto values = s.machine.read<float>(out, kRows);
  for (size_t r = 0; r < kRows; ++r) {
    double exact = 0;
    for (size_t k = 0; k < kLength; ++k)
      exact += static_cast<double>(a[r * kLength + k]) * static_cast<double>(b[k]);
    EXPECT_NEAR(s.truth_f32(out, r), exact, 1e-10) << r;
    inexact += static_cast<double>(values[r]) != exact;
  }
  EXPECT_GT(inexact, kRows / 2);
  const Profile p = s.profile_of(out, kRows * 4);
  ASSERT_FALSE(p.lines.empty());
  EXPECT_EQ(p.lines[0].operation, "fma.rn.f32");
  EXPECT_NEAR(p.lines[0].share, 1, 1e-3);
  EXPECT_EQ(p.lines[0].executions, kRows * kLength);
}

TEST(Shadow, OffIsTheSameAsOn) {
  Shadowed s(kDot);
  Machine plain(kDot);
  const auto a = random_floats(64 * 100), b = random_floats(100);
  for (Machine* m : {&s.machine, &plain}) {
    const Address pa = m->array(a), pb = m->array(b), out = m->array(std::vector<float>(64));
    ASSERT_EQ(m->launch("dot", {1}, {64}, {pa, pb, out, 100}).fault.message, "");
    static std::vector<float> first;
    if (first.empty()) first = m->read<float>(out, 64);
    EXPECT_EQ(first, m->read<float>(out, 64));
  }
}

// sums[i % n] += x[i], atomically in bf16.
const char* const kScatter = R"(
.visible .entry scatter(.param .u64 x, .param .u64 sums, .param .u64 n) {
  .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [sums]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r3, %r4, %r2;
  rem.u32 %r6, %r5, %r1;
  mul.wide.u32 %rd3, %r5, 2; add.s64 %rd4, %rd1, %rd3;
  mul.wide.u32 %rd5, %r6, 2; add.s64 %rd6, %rd2, %rd5;
  ld.global.u16 %h1, [%rd4];
  atom.global.add.noftz.bf16 %h2, [%rd6], %h1;
  ret;
})";

TEST(Shadow, AtomicsInBf16Stagnate) {
  Shadowed s(kScatter);
  constexpr size_t kCount = 32 * 1024, kSums = 10;  // lanes of a warp meet at one place, too
  const auto x = random_bf16(kCount);
  const Address px = s.machine.array(x), sums = s.machine.array(std::vector<uint16_t>(kSums));
  ASSERT_EQ(s.machine.launch("scatter", {kCount / 128}, {128}, {px, sums, kSums}).fault.message, "");
  std::vector<double> exact(kSums);
  for (size_t i = 0; i < kCount; ++i) exact[i % kSums] += bf16(x[i]);
  for (size_t i = 0; i < kSums; ++i) EXPECT_NEAR(s.truth_bf16(sums, i), exact[i], 1e-3 * exact[i]) << i;
  const Profile p = s.profile_of(sums, kSums * 2);
  EXPECT_EQ(p.lines.at(0).operation, "atom.global.add.noftz.bf16");
  EXPECT_NEAR(p.lines[0].share, 1, 1e-3);
  EXPECT_GT(p.lines[0].stagnated, kCount / 2);
  EXPECT_NE(reason(p.lines[0]).find("no longer change the sum"), std::string::npos) << reason(p.lines[0]);
}

// ---- Compiled kernels (kernels/kernels.cu) ----

int line_with(const std::string& words) {  // of kernels.cu
  std::ifstream file(std::string(kSourceFolder) + "/tests/shadow/kernels/kernels.cu");
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find(words) != std::string::npos) return number;
  }
  return -1;
}

TEST(Shadow, SoftmaxThroughSharedMemoryAndShuffles) {
  Shadowed s(compiled("kernels"));
  constexpr int kRows = 3, kLength = 500;
  const auto x = random_floats(kRows * kLength, -6, 6);
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<float>(x.size()));
  ASSERT_EQ(s.machine.launch("softmax", {kRows}, {128}, {px, py, kLength}).fault.message, "");
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int i = 0; i < kLength; ++i) sum += std::exp(static_cast<double>(x[r * kLength + i]));
    for (int i = 0; i < kLength; ++i) {
      const double exact = std::exp(static_cast<double>(x[r * kLength + i])) / sum;
      // expf's constant for log2(e) has an error of its own, which is no rounding of an operation.
      EXPECT_NEAR(s.truth_f32(py, r * kLength + i) / exact, 1, 2e-8) << r << " " << i;
    }
  }
  const Profile p = s.profile_of(py, x.size() * 4);
  double whole = 0;
  for (const LineShare& l : p.outputs.at(0).lines) whole += l.share;
  EXPECT_NEAR(whole, 1, 1e-3);
}

TEST(Shadow, FunctionsHandErrorsOn) {
  Shadowed s(compiled("kernels"));
  constexpr int kCount = 32;
  const auto x = random_floats(kCount, 0.3f, 2.0f);
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<float>(14 * kCount));
  ASSERT_EQ(s.machine.launch("functions", {1}, {kCount}, {px, py, kCount}).fault.message, "");
  using F = double (*)(double);
  const F functions[] = {[](double v) { return std::log(v); },
                         [](double v) { return std::exp(v); },
                         [](double v) { return std::tanh(v); },
                         [](double v) { return std::sin(v); },
                         [](double v) { return std::cos(v); },
                         [](double v) { return std::pow(v, static_cast<double>(1.7f)); },
                         [](double v) { return std::sqrt(v); },
                         [](double v) { return 1 / std::sqrt(v); },
                         [](double v) { return std::exp(v); },
                         [](double v) { return std::erf(v); },
                         [](double v) { return std::log1p(v); },
                         [](double v) { return std::exp(v); },
                         [](double v) { return v; },
                         [](double v) { return v / 3; }};
  const auto values = s.machine.read<float>(py, 14 * kCount);
  for (int f = 0; f < 14; ++f) {
    double shadow2 = 0, value2 = 0;
    for (int i = 0; i < kCount; ++i) {
      const double exact = functions[f](static_cast<double>(x[i]) * static_cast<double>(1.37f));
      shadow2 += std::pow(s.truth_f32(py, f * kCount + i) - exact, 2);
      value2 += std::pow(static_cast<double>(values[f * kCount + i]) - exact, 2);
    }
    // The polynomials inside have errors of their own; the shadow is free of rounding, and closer.
    EXPECT_LT(std::sqrt(shadow2), 0.6 * std::sqrt(value2)) << "function " << f;
  }
}

TEST(Shadow, PairsOfHalves) {
  Shadowed s(compiled("kernels"));
  constexpr int kLength = 200;
  const auto x = random_bf16(kLength * 64);
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<uint16_t>(64));
  ASSERT_EQ(s.machine.launch("pairs", {1}, {32}, {px, py, kLength}).fault.message, "");
  for (int i = 0; i < 64; ++i) {
    double exact = 0;
    for (int k = 0; k < kLength; ++k) exact += bf16(x[k * 64 + i]);
    EXPECT_NEAR(s.truth_bf16(py, i), exact, 1e-5 * exact) << i;
  }
  const Profile p = s.profile_of(py, 128);
  EXPECT_EQ(p.lines.at(0).where.line, line_with("__hadd2(sum"));
  EXPECT_EQ(p.lines[0].where.file, "kernels.cu");
  EXPECT_NEAR(p.lines[0].share, 1, 1e-3);
  EXPECT_GT(p.lines[0].introduced_max, 1e-3);
}

TEST(Shadow, CuttingIsNoRounding) {
  Shadowed s(compiled("kernels"));
  constexpr int kLength = 50;
  const auto x = random_floats(kLength * 32);
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<uint16_t>(32));
  ASSERT_EQ(s.machine.launch("cut", {1}, {32}, {px, py, kLength}).fault.message, "");
  for (int i = 0; i < 32; ++i) {
    double exact = 0;
    for (int k = 0; k < kLength; ++k) exact += static_cast<double>(x[k * 32 + i]);
    EXPECT_NEAR(s.truth_bf16(py, i), exact, 1e-6 * exact) << i;
  }
  const Profile p = s.profile_of(py, 64);
  EXPECT_EQ(p.lines.at(0).operation, "shr.u32");  // nvcc gives it the line before its own
  EXPECT_GT(p.lines[0].share, 0.99);
}

// The last rounding is the result's own; the one before it is somebody's fault.
TEST(Shadow, TheRoundingBeforeTheLastIsNamed) {
  Shadowed s(compiled("kernels"));
  constexpr int kCount = 512;
  const auto x = random_floats(kCount);
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<uint16_t>(kCount));
  ASSERT_EQ(s.machine.launch("rounded_twice", {1}, {32}, {px, py, kCount}).fault.message, "");
  const Profile twice = s.profile_of(py, kCount * 2);
  EXPECT_EQ(twice.lines.at(0).where.line, line_with("__float2bfloat16(x[i] / 3.0f)"));
  EXPECT_GT(twice.lines[0].share, 0.99);
  s.shadow.forget();
  ASSERT_EQ(s.machine.launch("rounded_once", {1}, {32}, {px, py, kCount}).fault.message, "");
  const Profile once = s.profile_of(py, kCount * 2);
  EXPECT_EQ(once.lines.at(0).where.line, line_with("__float2bfloat16(x[i] * 1.1f)"));
  EXPECT_TRUE(once.lines[0].rounds_result || once.lines[0].share > 0.9);
}

TEST(Shadow, TensorCoreProducts) {
  Shadowed s(compiled("kernels"));
  constexpr int kDepth = 256;
  const auto a = random_bf16(16 * kDepth), b = random_bf16(kDepth * 8, 0.5f, 1.5f, 2);
  const Address pa = s.machine.array(a), pb = s.machine.array(b),
                pc = s.machine.array(std::vector<float>(128));
  ASSERT_EQ(s.machine.launch("product", {1}, {32}, {pa, pb, pc, kDepth}).fault.message, "");
  const auto values = s.machine.read<float>(pc, 128);
  int inexact = 0;
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 8; ++c) {
      double exact = 0;
      for (int k = 0; k < kDepth; ++k) exact += bf16(a[r * kDepth + k]) * bf16(b[k * 8 + c]);
      EXPECT_NEAR(s.truth_f32(pc, r * 8 + c), exact, 1e-9 * exact) << r << " " << c;
      inexact += static_cast<double>(values[r * 8 + c]) != exact;
    }
  EXPECT_GT(inexact, 16);
  EXPECT_EQ(s.profile_of(pc, 512).lines.at(0).operation,
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32");
}

TEST(Shadow, OverflowIsTracedToItsLine) {
  Shadowed s(compiled("kernels"));
  std::vector<float> x(32, 1.0f);
  x[7] = 100;
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<float>(32));
  ASSERT_EQ(s.machine.launch("overflow", {1}, {32}, {px, py, 32}).fault.message, "");
  const Profile p = s.profile_of(py, 128);
  // inf / inf is wrong; 1 / inf is 0, and so is e / e^100 in f32.
  EXPECT_EQ(p.outputs.at(0).broken, 1u);
  EXPECT_EQ(p.outputs[0].elements, 1u);
  EXPECT_EQ(p.outputs[0].lines.at(0).where.line, line_with("sum += expf(x[i]);"));
  EXPECT_GT(p.lines.at(0).overflowed, 0u);
}

TEST(Shadow, CancellationIsCounted) {
  Shadowed s(compiled("kernels"));
  constexpr int kLength = 256;
  const auto x = random_floats(kLength * 32, 100.0f, 100.5f);
  const Address px = s.machine.array(x), py = s.machine.array(std::vector<float>(32));
  ASSERT_EQ(s.machine.launch("variance", {1}, {32}, {px, py, kLength}).fault.message, "");
  for (int i = 0; i < 32; ++i) {
    double sum = 0, squares = 0;
    for (int k = 0; k < kLength; ++k) {
      const auto v = static_cast<double>(x[k * 32 + i]);
      sum += v, squares += v * v;
    }
    const double exact = squares / kLength - sum / kLength * (sum / kLength);
    EXPECT_NEAR(s.truth_f32(py, i), exact, 1e-4 * exact + 1e-9) << i;
  }
  const Profile p = s.profile_of(py, 128);
  const int last = line_with("- mean * mean");
  const auto cancels = std::find_if(p.lines.begin(), p.lines.end(),
                                    [&](const LineProfile& l) { return l.where.line == last; });
  ASSERT_NE(cancels, p.lines.end());
  EXPECT_GT(cancels->cancelled_bits, 10);
  EXPECT_GT(cancels->amplification, 100);
}

// More lines than can be told apart: their share is told as that of others, and a second run can ask for
// them.
TEST(Shadow, LinesThatAreNotToldApart) {
  std::string body = R"(
.visible .entry scaled(.param .u64 x, .param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<6>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
)";
  constexpr int kLines = 20;
  for (int i = 0; i < kLines; ++i) body += "  mul.rn.f32 %f1, %f1, 0f3F8CCCCD;\n";
  body += "  st.global.f32 [%rd5], %f1;\n  ret;\n}\n";
  const auto x = random_floats(256);
  const auto run = [&](const std::vector<Where>& first) {
    Shadowed s(body);
    s.shadow.separate_lines(first);
    const Address px = s.machine.array(x), out = s.machine.array(std::vector<float>(256));
    EXPECT_EQ(s.machine.launch("scaled", {1}, {256}, {px, out}).fault.message, "");
    return s.profile_of(out, 1024);
  };
  const auto told = [](const Profile& p) {
    double sum = 0;
    for (const LineShare& l : p.outputs.at(0).lines) sum += l.share;
    return sum;
  };
  const Profile first = run({});
  EXPECT_NEAR(first.outputs.at(0).others, 7.0 / kLines, 0.2);
  EXPECT_NEAR(told(first) + first.outputs[0].others, 1, 1e-6);
  std::vector<Where> pooled;
  for (const LineProfile& l : first.lines)
    if (l.pooled) pooled.push_back(l.where);
  EXPECT_EQ(pooled.size(), 7u);
  const Profile second = run(pooled);
  for (const LineProfile& l : first.lines) {
    if (!l.pooled) continue;
    const auto same = std::find_if(second.lines.begin(), second.lines.end(),
                                   [&](const LineProfile& o) { return o.where == l.where; });
    ASSERT_NE(same, second.lines.end());
    EXPECT_FALSE(same->pooled) << l.where.line;
    EXPECT_NE(same->share, 0) << l.where.line;
  }
}

}  // namespace
}  // namespace assay::shadow
