// Proofs that another solver agrees with: the questions that `--dump` writes, asked of cvc5.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "folders.h"
#include "subject/process.h"

namespace assay::prove {
namespace {

namespace fs = std::filesystem;

// A strided loop over the rows of a matrix that a block owns, in steps of four: products of dims, a counter, a guard.
constexpr const char* kKernel = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry rows(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p<3>; .reg .f32 %f<3>; .reg .b32 %r<9>; .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.s32 %rd3, %r2, %r1;
loop:
  setp.ge.s32 %p1, %r3, %r1;
  @%p1 bra done;
  cvt.s64.s32 %rd4, %r3;
  add.s64 %rd5, %rd3, %rd4;
  shl.b64 %rd6, %rd5, 2;
  add.s64 %rd7, %rd1, %rd6;
  ld.global.f32 %f1, [%rd7];
  add.s64 %rd8, %rd2, %rd6;
  st.global.f32 [%rd8], %f1;
  add.s32 %r3, %r3, 64;
  bra loop;
done:
  ret;
}
)";
constexpr const char* kContract = R"([kernel]
source = "rows.ptx"
global = "rows"
grid = ["m"]
block = [64]
args = ["x", "y", "n"]
[dims]
m = { min = 1, max = 60000 }
n = { min = 1, max = 8192 }
[tensors.x]
dtype = "f32"
shape = ["m", "n"]
[tensors.y]
dtype = "f32"
shape = ["m", "n"]
role = "out"
[reference]
formula = "y[i, j] = x[i, j]"
)";

std::string text_of(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string answer(const std::string& question) {
  const auto result = subject::run_command({"cvc5", "--tlimit=20000", question}, 30);
  if (!result) return "";
  return result->output.substr(0, result->output.find('\n'));
}

TEST(SecondSolver, agrees_with_what_was_proved) {
  if (const auto found = subject::run_command({"cvc5", "--version"}, 10); !found || found->status != 0)
    GTEST_SKIP() << "no cvc5 (Debian's package cvc5)";
  const TemporaryFolder folder("second-solver");
  std::ofstream(folder.file("rows.ptx")) << kKernel;
  std::ofstream(folder.file("rows.toml")) << kContract;
  const std::string dump = folder.file("dump");
  const auto proof = subject::run_command(
      {std::string(kBinaryFolder) + "/bin/assay", "prove", folder.file("rows.toml"), "--dump", dump}, 120);
  ASSERT_TRUE(proof);
  ASSERT_THAT(proof->output, ::testing::HasSubstr("proved   bounds")) << proof->output;
  std::vector<fs::path> linear;
  for (const auto& entry : fs::directory_iterator(dump))
    if (text_of(entry.path()).starts_with("(set-logic QF_LIA)")) linear.push_back(entry.path());
  std::sort(linear.begin(), linear.end());
  ASSERT_GE(linear.size(), 3u) << proof->output;
  constexpr size_t kSample = 16;  // evenly, of all obligations
  const size_t step = std::max<size_t>(1, linear.size() / kSample);
  for (size_t i = 0; i < linear.size(); i += step) {
    const std::string text = text_of(linear[i]);
    EXPECT_EQ(answer(linear[i].string()), "unsat") << text;
    // Without the denial of what is to be shown there must be a model: from premises that contradict each other anything
    // follows.
    std::string premises = text;
    const size_t denial = premises.find("; the denial of what is to be shown\n");
    ASSERT_NE(denial, std::string::npos) << text;
    premises.erase(denial, premises.find('\n', premises.find("(assert", denial)) - denial);
    premises.erase(premises.find("(set-info :status unsat)"), 24);
    const std::string file = folder.file("premises.smt2");
    std::ofstream(file) << premises;
    EXPECT_EQ(answer(file), "sat") << text;
  }
}

}  // namespace
}  // namespace assay::prove
