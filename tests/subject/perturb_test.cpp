// Pauses in device code: the same results where nothing relies on timing, others where something does.
#include "subject/perturb.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "folders.h"
#include "ptx/module.h"
#include "subject/runner.h"
#include "subject/subject.h"
#include "support.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int occurrences(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

std::string kernel_of(const std::string& body) {
  return ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
         ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n.shared .align 4 .b8 s[128];\n"
         "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n" +
         body + "ret;\n}\n";
}

std::string perturbed_body(const std::string& body) {
  const auto text = perturb(kernel_of(body));
  EXPECT_TRUE(text) << text.error().text();
  if (!text) return "";
  const auto again = ptx::parse(*text);
  EXPECT_TRUE(again) << again.error().text() << "\n" << *text;
  return *text;
}

TEST(Perturb, PausesBeforeWhatOthersMaySee) {
  const std::string text = perturbed_body("bar.sync 0;\nst.global.u32 [%rd1], %r1;\nbar.sync 0;\n");
  // At the start, before both barriers, and before the store in each of its two copies.
  EXPECT_EQ(occurrences(text, "nanosleep"), 5);
  EXPECT_EQ(occurrences(text, "st.global.u32"), 2);
  EXPECT_EQ(occurrences(text, "bar.sync"), 2);
}

TEST(Perturb, WhereLanesMeetNothingIsThereTwice) {
  const std::string text = perturbed_body(
      "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nbar.warp.sync -1;\nvote.sync.any.pred %p1, %p1, -1;\n"
      "mov.u32 %r3, s;\nst.shared.u32 [%r3], %r2;\nactivemask.b32 %r4;\n");
  for (const char* once : {"shfl.sync", "bar.warp.sync", "vote.sync", "activemask"})
    EXPECT_EQ(occurrences(text, once), 1) << once;
  EXPECT_EQ(occurrences(text, "st.shared.u32"), 2);
}

// A loop is copied whole or not at all: its branch must not lead from one copy into the other.
TEST(Perturb, ALoopStaysInItsCopy) {
  const std::string text = perturbed_body(
      "mov.u32 %r2, 0;\nLOOP:\nst.global.u32 [%rd1], %r2;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 9;\n"
      "@%p1 bra LOOP;\n");
  EXPECT_THAT(text, HasSubstr("bra LOOP_assay1;"));
  EXPECT_THAT(text, HasSubstr("bra LOOP_assay2;"));
  EXPECT_THAT(text, Not(HasSubstr("bra LOOP;")));
}

TEST(Perturb, WhatIsEnteredFromElsewhereIsThereOnce) {
  const std::string text = perturbed_body(
      "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra MIDDLE;\nbar.sync 0;\nadd.u32 %r1, %r1, 1;\nMIDDLE:\n"
      "st.global.u32 [%rd1], %r1;\nbar.sync 1;\n");
  EXPECT_EQ(occurrences(text, "add.u32 %r1, %r1, 1;"), 1);
  EXPECT_THAT(text, HasSubstr("bra MIDDLE;"));
}

TEST(Perturb, ACarryIsNotLost) {
  const std::string text = perturbed_body(
      "add.cc.u32 %r2, %r1, 1;\nst.global.u32 [%rd1], %r2;\naddc.u32 %r3, %r1, 0;\n"
      "st.global.u32 [%rd1+4], %r3;\n");
  EXPECT_EQ(occurrences(text, "addc.u32"), 1);
}

// PTX wants the arguments of a call, the call and its results in one basic block.
TEST(Perturb, ACallKeepsItsArgumentsAndResultsBesideIt) {
  const std::string function =
      ".func (.param .b32 out) f(.param .b32 in)\n{\n.reg .b32 %r<2>;\nld.param.b32 %r1, [in];\n"
      "st.param.b32 [out], %r1;\nret;\n}\n";
  std::string text = kernel_of(
      "bar.sync 0;\nst.global.u32 [%rd1], %r1;\n{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\n"
      "call.uni (b), f, (a);\nld.param.b32 %r2, [b];\n}\nst.global.u32 [%rd1+4], %r2;\n");
  text.insert(text.find(".visible"), function);
  const auto perturbed = perturb(text);
  ASSERT_TRUE(perturbed) << perturbed.error().text();
  std::istringstream lines(*perturbed);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  const auto call = std::find_if(all.begin(), all.end(), [](const std::string& line) {
    return line.find("call.uni") != std::string::npos;
  });
  ASSERT_NE(call, all.end());
  EXPECT_THAT(*(call - 1), HasSubstr("st.param.b32 [a"));
  EXPECT_THAT(*(call + 1), HasSubstr("ld.param.b32 %r2, [b"));
  EXPECT_EQ(occurrences(*perturbed, "st.param.b32"), 2);  // the argument, and the function's own result
  EXPECT_EQ(occurrences(*perturbed, "st.global.u32 [%rd1], "), 2);
}

TEST(Perturb, ABlockOf1024ThreadsStaysPossible) {
  EXPECT_THAT(perturbed_body("bar.sync 0;\n"), HasSubstr(".maxnreg 64"));
  const auto wide = perturb(kernel_of("bar.sync 0;\n"), {{"k", 200}});
  ASSERT_TRUE(wide);
  EXPECT_THAT(*wide, HasSubstr(".maxnreg 200"));
}

// ---- as a check uses it: with the virtual runtime in the place of NVIDIA's

class PerturbedTest : public ::testing::Test {
 protected:
  // y[i] = x[i]: each lane stores what another has read.
  Runner runner_of(const std::string& between) {
    folder_.write("k.cu", R"(
__global__ void turn(const float* x, float* y, int n) {
  __shared__ volatile float held[32];
  const int lane = threadIdx.x, first = blockIdx.x * 32, other = 31 - lane;
  held[lane] = first + lane < n ? x[first + lane] : 0.0f;
  )" + between + R"(
  if (first + other < n) y[first + other] = held[other];
}
extern "C" int k(const float* x, float* y, int n, cudaStream_t stream) {
  if (n > 0) turn<<<(n + 31) / 32, 32, 0, stream>>>(x, y, n);
  return cudaGetLastError();
})");
    contract_ = contract_in(folder_, "k.cu", "entry = \"k\"\nreturns = \"int\"");
    BuildOutcome built = build(*contract_, {.cache = folder_.path("cache")});
    EXPECT_TRUE(built.subject) << built.failure.output;
    RunnerOptions options;
    options.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    options.cuda_runtime = std::string(kBinaryFolder) + "/lib";
    options.device = Device::Cuda;
    options.timeout = 60;
    subject_ = *built.subject;
    return {*contract_, subject_, options};
  }

  Observation run(const std::string& between) {
    Runner runner = runner_of(between);
    trial::Trial trial = trial_of(1000);
    trial.condition = {.ordered = false, .loaded = true, .perturbed = true};
    inputs_ = *trial::make_inputs(*contract_, trial);
    return runner.run(trial, inputs_);
  }

  bool is_right(const Observation& observation) const {
    return observation.calls.at(0).outputs.at("y")->bytes == inputs_.inputs.at("x")->bytes;
  }

  Folder folder_;
  std::optional<contract::Contract> contract_;
  Subject subject_;
  contract::Bindings inputs_;
};

TEST_F(PerturbedTest, ARightKernelStaysRight) {
  const Observation observation = run("__syncwarp();");
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  ASSERT_TRUE(observation.load);
  EXPECT_GT(observation.load->repeats, 2);
  EXPECT_FALSE(observation.load->difference);
  EXPECT_TRUE(is_right(observation));
}

// Each of two processes repeats its call until the other, or itself, has one to make: never both at once.
TEST_F(PerturbedTest, TwoProcessesTakeTurns) {
  Runner runner = runner_of("__syncwarp();");
  runner.set_goes_on(true);
  trial::Trial plain = trial_of(1000);
  plain.condition = {.ordered = false};
  inputs_ = *trial::make_inputs(*contract_, plain);
  trial::Trial paused = plain;
  paused.condition.perturbed = true;
  const auto begun = std::chrono::steady_clock::now();
  protocol::WorkerTime time;
  for (const trial::Trial* trial : {&plain, &paused, &plain, &paused, &plain}) {
    const Observation observation = runner.run(*trial, inputs_);
    ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
    EXPECT_FALSE(observation.shaken);
    // Those of the trial before; the first has none.
    EXPECT_TRUE(time.calling > 0 || observation.repeats == 0);
    time += observation.time;
    usleep(200'000);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(time.repeating, 0);
  EXPECT_LT(time.calling + time.repeating, elapsed.count());
}

// Right on the virtual device in text order, and on a GPU: lanes run in step.
TEST_F(PerturbedTest, LanesThatRelyOnEachOtherShow) {
  const Observation observation = run("");
  ASSERT_EQ(observation.outcome, CallOutcome::Ended) << observation.error;
  EXPECT_FALSE(is_right(observation));
}

}  // namespace
}  // namespace assay::subject
