// Shadow execution against the same computation in double, written down here.
#include "shadow/shadow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "numerics/lanes.h"
#include "vgpu/machine.h"

namespace assay::shadow {
namespace {

using vgpu::Address;
using vgpu::Dim3;
using vgpu::testing::Machine;

struct Shadowed {
  Shadow shadow;
  Machine machine;

  explicit Shadowed(const std::string& body) : machine(body, options(&shadow)) {
    shadow.watch(machine.device().memory());
  }
  static vgpu::Options options(Shadow* shadow) {
    vgpu::Options o;
    o.threads = 1;
    o.instrumenter = shadow;
    return o;
  }
  std::byte* host(Address address, uint64_t bytes) { return machine.device().memory().host(address, bytes); }
  // value − error: what FP64 says.
  double truth_f32(Address address, size_t i) {
    std::byte* at = host(address + 4 * i, 4);
    float v;
    std::memcpy(&v, at, 4);
    return static_cast<double>(v) - shadow.error_at(at, 4);
  }
  double truth_bf16(Address address, size_t i) {
    std::byte* at = host(address + 2 * i, 2);
    uint16_t v;
    std::memcpy(&v, at, 2);
    return static_cast<double>(numerics::bf16_to_f32(v)) - shadow.error_at(at, 2);
  }
  Profile profile_of(Address address, uint64_t bytes) {
    shadow.take_output("out", host(address, bytes), bytes);
    return shadow.profile();
  }
};

std::vector<float> random_floats(size_t n, float low = 0.5f, float high = 1.5f, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(low, high);
  std::vector<float> all(n);
  for (float& x : all) x = number(random);
  return all;
}
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

}  // namespace
}  // namespace assay::shadow
