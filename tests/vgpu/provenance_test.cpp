// Where a pointer came from, as far as the code tells.
#include "vgpu/provenance.h"

#include <gmock/gmock.h>

#include "vgpu/machine.h"
#include "vgpu/program.h"
#include "vgpu/recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;

constexpr const char* kKernels = R"(
.visible .entry index(.param .u64 x, .param .u64 y, .param .u64 i) {
  .reg .b64 %rd<9>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [i];
  cvta.to.global.u64 %rd4, %rd1; cvta.to.global.u64 %rd5, %rd2;
  shl.b64 %rd6, %rd3, 2; add.s64 %rd7, %rd4, %rd6;
  ld.global.u32 %r1, [%rd7]; st.global.u32 [%rd5], %r1; ret;
}
.visible .entry distance(.param .u64 x, .param .u64 y) {  // reads y by its distance from x, as compilers do in loops
  .reg .b64 %rd<9>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  sub.s64 %rd3, %rd2, %rd1; add.s64 %rd4, %rd1, 4; add.s64 %rd5, %rd4, %rd3;
  ld.global.u32 %r1, [%rd5]; st.global.u32 [%rd1], %r1; ret;
}
.visible .entry choice(.param .u64 x, .param .u64 y, .param .u64 i) {
  .reg .b64 %rd<9>; .reg .b32 %r<4>; .reg .pred %p;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [i];
  setp.eq.u64 %p, %rd3, 0; selp.b64 %rd4, %rd1, %rd2, %p;
  ld.global.u32 %r1, [%rd4]; st.global.u32 [%rd1], %r1; ret;
}
)";

class ProvenanceTest : public ::testing::Test {
 protected:
  ProvenanceTest() : machine_(kKernels, {.threads = 1, .watch = true}) {
    machine_.device().listen(&recorder_);
  }
  Machine machine_;
  testing::Recorder recorder_;
};

// y begins so many elements after x that an index hits it, as a wrapped product may.
TEST_F(ProvenanceTest, AnAccessThatLandsInAnotherAllocationIsOutOfBounds) {
  const Address x = machine_.array(std::vector<uint32_t>{1, 2, 3}, "x");
  const Address y = machine_.array(std::vector<uint32_t>{7, 8, 9}, "y");
  machine_.launch("index", {1}, {1}, {x, y, (y - x) / 4 + 1});
  EXPECT_EQ(recorder_.violations.size(), 1u);
  recorder_.violations.clear();
  machine_.launch("index", {1}, {1}, {x, y, 1});
  EXPECT_TRUE(recorder_.violations.empty());
  EXPECT_EQ(machine_.read<uint32_t>(y, 1)[0], 2u);
}

// What a launch may touch is for its own pointers to say, not for those of the launch before.
TEST_F(ProvenanceTest, HoldsForEachLaunchAnew) {
  const Address x = machine_.array(std::vector<uint32_t>{1, 2, 3}, "x");
  const Address y = machine_.array(std::vector<uint32_t>{7, 8, 9}, "y");
  machine_.launch("index", {1}, {1}, {x, y, 0});
  machine_.launch("index", {1}, {1}, {y, x, 0});
  EXPECT_TRUE(recorder_.violations.empty());
  machine_.launch("index", {1}, {1}, {y, y, (x - y) / 4});
  EXPECT_EQ(recorder_.violations.size(), 1u);
}

TEST_F(ProvenanceTest, FollowsTheDistanceOfTwoPointers) {
  const Address x = machine_.array(std::vector<uint32_t>{1, 2, 3}, "x");
  const Address y = machine_.array(std::vector<uint32_t>{7, 8, 9}, "y");
  machine_.launch("distance", {1}, {1}, {x, y});
  EXPECT_TRUE(recorder_.violations.empty());
  EXPECT_EQ(machine_.read<uint32_t>(x, 1)[0], 8u);
}

TEST_F(ProvenanceTest, ClaimsNothingOfAChoice) {
  const Address x = machine_.array(std::vector<uint32_t>{1, 2, 3}, "x");
  const Address y = machine_.array(std::vector<uint32_t>{7, 8, 9}, "y");
  for (const uint64_t i : {0, 1}) machine_.launch("choice", {1}, {1}, {x, y, i});
  EXPECT_TRUE(recorder_.violations.empty());
}

}  // namespace
}  // namespace assay::vgpu
