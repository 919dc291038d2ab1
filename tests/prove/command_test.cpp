// `assay prove` as a whole: exit status, JSON, and a refutation that the virtual GPU has shown.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "folders.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::prove {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string text;
  nlohmann::json json;

  std::string status_of(const std::string& obligation) const {
    for (const nlohmann::json& one : json.value("obligations", nlohmann::json::array()))
      if (one["obligation"] == obligation) return one["status"];
    return "";
  }
};

class Command : public ::testing::Test {
 protected:
  void SetUp() override {
    if (subject::find_nvcc().empty()) GTEST_SKIP() << "nvcc was not found";
    folder_ = fs::temp_directory_path() / fmt::format("assay-prove-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Doubles n numbers; `guard` is the condition under which a thread works.
  Outcome prove(const std::string& guard, const std::vector<std::string>& options = {}) {
    return prove_source(fmt::format(R"(
__global__ void twice_kernel(const float* x, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if ({}) y[i] = 2.0f * x[i];
}}
extern "C" void twice(const float* x, float* y, int n, cudaStream_t stream) {{
  twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}}
)",
                                    guard),
                        options);
  }

  Outcome prove_source(const std::string& source, const std::vector<std::string>& options = {}) {
    std::ofstream(folder_ / "k.cu") << source;
    std::ofstream(folder_ / "k.toml") << R"([kernel]
source = "k.cu"
entry = "twice"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1000000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
)";
    return run(options);
  }

  Outcome run(const std::vector<std::string>& options) {
    const std::string report = (folder_ / "proof.json").string();
    std::vector<std::string> words = {std::string(kBinaryFolder) + "/bin/assay", "prove",
                                      (folder_ / "k.toml").string(), "--json", report};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = subject::run_command(words, 120);
    Outcome outcome;
    if (!result) return outcome;
    outcome.status = result->status;
    outcome.text = result->output;
    std::ifstream file(report);
    outcome.json = nlohmann::json::parse(file, nullptr, false);
    return outcome;
  }

  fs::path folder_;
};

TEST_F(Command, a_right_kernel_is_proved_and_its_values_agree) {
  const Outcome outcome = prove("i < n", {"--dump", (folder_ / "dump").string()});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const char* name : {"bounds", "overflow", "alignment", "launch", "barrier", "race", "coverage"})
    EXPECT_EQ(outcome.status_of(name), "proved") << name;
  EXPECT_EQ(outcome.status_of("values"), "agrees");
  EXPECT_EQ(outcome.json["verdict"], "proved");
  EXPECT_NE(outcome.text.find("the largest shape is n=1000000"), std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.json["launch"][0]["checked"], "sampled");
  EXPECT_NE(outcome.json["launch"][0]["relation"].get<std::string>().find("grid.x = ceil_div(n, 128)"),
            std::string::npos);
  EXPECT_FALSE(outcome.json["assumptions"].empty());
  EXPECT_NE(outcome.text.find("For n from 1 to 1000000"), std::string::npos);
  EXPECT_FALSE(fs::is_empty(folder_ / "dump"));
}

TEST_F(Command, a_wrong_one_is_refuted_by_a_run) {
  const Outcome outcome = prove("i <= n");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_EQ(outcome.status_of("bounds"), "refuted");
  ASSERT_FALSE(outcome.json["findings"].empty());
  EXPECT_EQ(outcome.json["findings"][0]["kind"], "out-of-bounds");
}

// The index goes through a float, which is an unknown number to the prover: its counterexample is a small shape, where nothing
// goes wrong. At the corners of the promise a sample of the blocks shows it.
TEST_F(Command, what_goes_wrong_at_giant_shapes_only_is_shown_by_a_sample_of_the_blocks) {
  std::ofstream(folder_ / "k.ptx") << R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r2, 256, %r3;
  setp.ge.s32 %p, %r4, %r1; @%p bra END;
  cvt.rn.f32.s32 %f1, %r4; cvt.rzi.s32.f32 %r5, %f1;
  mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f2, [%rd4];
  add.f32 %f3, %f2, %f2;
  mul.wide.s32 %rd5, %r4, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], %f3;
  END: ret;
}
)";
  std::ofstream(folder_ / "k.toml") << R"toml([kernel]
source = "k.ptx"
global = "twice"
grid = ["ceil_div(n, 256)"]
block = [256]
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 1073741824 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i]"
)toml";
  const Outcome outcome = run({"--only", "bounds"});
  EXPECT_EQ(outcome.status_of("bounds"), "refuted") << outcome.text;
  EXPECT_NE(outcome.text.find("a sample of the blocks"), std::string::npos) << outcome.text;
}

// A case of the host code that takes two conditions: long, and a multiple of four.
TEST_F(Command, host_code_with_a_path_for_long_multiples) {
  const auto source = [](const char* condition) {
    return fmt::format(R"(
__global__ void plain(const float* x, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}}
__global__ void fours(const float* x, float* y, int n) {{
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    for (int j = 0; j < 4; ++j) y[i + j] = 2.0f * x[i + j];
}}
extern "C" void twice(const float* x, float* y, int n, cudaStream_t stream) {{
  if ({})
    fours<<<(n / 4 + 127) / 128, 128, 0, stream>>>(x, y, n);
  else
    plain<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}}
)",
                       condition);
  };
  const Outcome right = prove_source(source("n > 1000 && n % 4 == 0"), {"--only", "bounds"});
  EXPECT_NE(right.json["launch"].dump().find("if n % 4 == 0, if n >= 1004"), std::string::npos)
      << right.json["launch"].dump(1);
  for (const nlohmann::json& one : right.json["obligations"]) {
    if (one["obligation"] != "bounds") continue;
    EXPECT_EQ(one["status"], "proved") << one.dump();
  }
  const Outcome wrong = prove_source(source("n > 1000 && n % 2 == 0"), {"--only", "bounds"});
  EXPECT_EQ(wrong.status, 1) << wrong.text;
}

// Kernels of their own for one size and, apart from it, for multiples of eight: no condition tells the multiples from
// that size, and the bounds follow from one that holds for them. Where the host code has another size in mind than the
// kernel, a run shows it.
TEST_F(Command, host_code_with_a_kernel_for_one_size) {
  const auto source = [](int size) {
    return fmt::format(R"(
__global__ void plain(const float* x, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}}
__global__ void eights(const float* x, float* y, int n) {{
  const int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n)
    for (int j = 0; j < 8; ++j) y[i + j] = 2.0f * x[i + j];
}}
__global__ void one_size(const float* x, float* y) {{
  const int i = blockIdx.x * 128 + threadIdx.x;
  y[i] = 2.0f * x[i];
}}
extern "C" void twice(const float* x, float* y, int n, cudaStream_t stream) {{
  if (n == {})
    one_size<<<40, 128, 0, stream>>>(x, y);
  else if (n > 3000 && n % 8 == 0)
    eights<<<(n / 8 + 127) / 128, 128, 0, stream>>>(x, y, n);
  else
    plain<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}}
)",
                       size);
  };
  const Outcome right = prove_source(source(5120), {"--only", "bounds"});
  EXPECT_EQ(right.status, 0) << right.text;
  EXPECT_NE(right.text.find("if n >= 5120, if n <= 5120"), std::string::npos) << right.text;
  EXPECT_NE(right.text.find("if n % 8 == 0, if n >= 3008"), std::string::npos) << right.text;
  EXPECT_EQ(prove_source(source(5112), {"--only", "bounds"}).status, 1);
}

// A 16-bit index that is kept from being negative stays within the tensor, and wraps from n = 65537 on: only the
// result shows it. Where the result is wrong without any wrap as well, the wrap is not to blame.
TEST_F(Command, an_index_that_wraps_is_shown_by_its_result) {
  const auto source = [](int factor) {
    return fmt::format(R"(
__global__ void twice_kernel(const float* x, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const short j = static_cast<short>(i);
  y[i] = j < 0 ? 0.0f : {}.0f * x[j];
}}
extern "C" void twice(const float* x, float* y, int n, cudaStream_t stream) {{
  twice_kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}}
)",
                       factor);
  };
  const std::vector<std::string> only = {"--only", "bounds", "--only", "overflow"};
  const Outcome wraps = prove_source(source(2), only);
  EXPECT_EQ(wraps.status_of("bounds"), "proved") << wraps.text;
  EXPECT_EQ(wraps.status_of("overflow"), "refuted") << wraps.text;
  const Outcome other = prove_source(source(3), only);
  EXPECT_EQ(other.status_of("overflow"), "unknown") << other.text;
}

// A position of 16 bits begins again before it reaches n, and again: the call never ends, and nothing else is wrong.
TEST_F(Command, a_position_that_wraps_and_never_ends_is_shown_by_a_run) {
  const Outcome outcome = prove_source(R"(
__global__ void twice_kernel(const float* x, float* y, int n) {
  for (unsigned short i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i];
}
extern "C" void twice(const float* x, float* y, int n, cudaStream_t stream) {
  twice_kernel<<<8, 32, 0, stream>>>(x, y, n);
}
)",
                                       {"--only", "overflow"});
  EXPECT_EQ(outcome.status_of("overflow"), "refuted") << outcome.text;
  ASSERT_FALSE(outcome.json["findings"].empty());
  EXPECT_EQ(outcome.json["findings"][0]["kind"], "timeout");
}

// Of all rows one alone has an index that 16 bits do not hold.
TEST_F(Command, the_last_row_is_asked_for) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void row_kernel(const float* x, const int* index, float* y) {
  y[0] = x[static_cast<unsigned short>(index[0])];
}
extern "C" void row(const float* x, const int* index, float* y, cudaStream_t stream) {
  row_kernel<<<1, 1, 0, stream>>>(x, index, y);
}
)";
  std::ofstream(folder_ / "k.toml") << R"toml([kernel]
source = "k.cu"
entry = "row"
args = ["x", "index", "y", "stream"]
[dims]
V = { min = 1, max = 65537 }
n = { min = 1, max = 1 }
[tensors.x]
dtype = "f32"
shape = ["V"]
[tensors.index]
dtype = "i32"
shape = ["n"]
values = "index(V)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[index[i]]"
)toml";
  const Outcome outcome = run({"--only", "overflow"});
  EXPECT_EQ(outcome.status_of("overflow"), "refuted") << outcome.text;
}

// Rows from 32,768 on are taken for the first: a fifth of them, at shapes with so many rows.
TEST_F(Command, values_are_compared_at_indices_of_all_of_a_long_table) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void row_kernel(const float* x, const int* index, float* y, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = x[index[i] < 32768 ? index[i] : 0];
}
extern "C" void row(const float* x, const int* index, float* y, int n, cudaStream_t stream) {
  row_kernel<<<(n + 63) / 64, 64, 0, stream>>>(x, index, y, n);
}
)";
  std::ofstream(folder_ / "k.toml") << R"toml([kernel]
source = "k.cu"
entry = "row"
args = ["x", "index", "y", "n", "stream"]
[dims]
V = { min = 1, max = 40000 }
n = { min = 1, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["V"]
[tensors.index]
dtype = "i32"
shape = ["n"]
values = "index(V)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[index[i]]"
)toml";
  EXPECT_EQ(run({"--only", "values"}).status_of("values"), "refuted");
}

// Nothing is proved of tensors behind arrays of pointers, but what runs show counts: rows that are left out, and rows of
// others, at other draws.
TEST_F(Command, arrays_of_pointers_are_run_with_several_draws) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void twice_kernel(const float* const* x, float* const* y, const int* offsets) {
  const int rows = offsets[1] - offsets[0];
  for (int i = threadIdx.x; i < rows; i += blockDim.x) y[blockIdx.x][i] = 2.0f * x[blockIdx.x][i];
}
extern "C" void twice(const float* const* x, float* const* y, const int* offsets, int G, cudaStream_t stream) {
  twice_kernel<<<G, 64, 0, stream>>>(x, y, offsets);
}
)";
  std::ofstream(folder_ / "k.toml") << R"toml([kernel]
source = "k.cu"
entry = "twice"
args = ["x", "y", "offsets", "G", "stream"]
[dims]
G = { min = 1, max = 32 }
T = { min = 1, max = 2048 }
[tensors.offsets]
dtype = "i32"
shape = ["G + 1"]
values = "offsets(T)"
[tensors.x]
dtype = "f32"
shape = ["T"]
pointers = "offsets"
[tensors.y]
dtype = "f32"
shape = ["T"]
role = "out"
pointers = "offsets"
[reference]
formula = "y[t] = 2 * x[t]"
)toml";
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.status_of("bounds"), "refuted") << outcome.text;
  EXPECT_EQ(outcome.status_of("coverage"), "refuted") << outcome.text;
}

TEST_F(Command, an_element_that_is_left_out_is_shown_by_a_run) {
  const Outcome outcome = prove("i < n - 1");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_EQ(outcome.status_of("bounds"), "proved");
  EXPECT_EQ(outcome.status_of("coverage"), "refuted");
  ASSERT_FALSE(outcome.json["findings"].empty());
  EXPECT_EQ(outcome.json["findings"][0]["kind"], "unwritten-output");
}

// No thread is guessed of an index that a mask makes, so there is no counterexample; but a run at the usual shapes shows it.
TEST_F(Command, elements_left_out_are_looked_for_without_a_counterexample) {
  const Outcome outcome = prove("i < n) y[(i + 1) & (n - 1)] = 0; if (false", {"--only", "coverage"});
  EXPECT_EQ(outcome.status_of("coverage"), "refuted") << outcome.text;
}

TEST_F(Command, one_obligation_is_decided_alone_with_those_that_it_rests_on) {
  const auto names = [](const Outcome& outcome) {
    std::set<std::string> found;
    for (const nlohmann::json& one : outcome.json["obligations"]) found.insert(one["obligation"]);
    return found;
  };
  const Outcome values = prove("i < n", {"--only", "values"});
  EXPECT_EQ(names(values), std::set<std::string>{"values"}) << values.text;
  const Outcome race = prove("i < n", {"--only", "race"});
  EXPECT_EQ(names(race), (std::set<std::string>{"barrier", "bounds", "race"})) << race.text;
  EXPECT_EQ(prove("i < n", {"--only", "luck"}).status, 2);
}

// The trials of a check are runs of the host code, too. Within some range of the scalar, where nothing was recorded, it launches
// otherwise.
TEST_F(Command, a_check_whose_trial_launches_otherwise_has_no_proofs) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void scale_kernel(const float* x, float* y, int n, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
extern "C" void scale(const float* x, float* y, int n, float a, cudaStream_t stream) {
  const int threads = a > 6 && a < 7.9f ? 256 : 128;
  scale_kernel<<<(n + 127) / 128, threads, 0, stream>>>(x, y, n, a);
}
)";
  const auto check = [&](int most) {
    std::ofstream(folder_ / "k.toml") << fmt::format(R"([kernel]
source = "k.cu"
entry = "scale"
args = ["x", "y", "n", "a", "stream"]
[dims]
n = {{ min = 1, max = 100000 }}
[scalars.a]
dtype = "f32"
range = [1, {}]
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = a * x[i]"
)",
                                                     most);
    const std::string report = (folder_ / "report.json").string();
    const auto result =
        subject::run_command({std::string(kBinaryFolder) + "/bin/assay", "check",
                              (folder_ / "k.toml").string(), "--prove", "--budget", "6", "--json", report},
                             120);
    EXPECT_TRUE(result);
    std::ifstream file(report);
    return nlohmann::json::parse(file, nullptr, false).value("proof", nlohmann::json::object());
  };
  const nlohmann::json usual = check(2), odd = check(8);
  ASSERT_TRUE(usual.contains("obligations") && odd.contains("obligations"));
  EXPECT_FALSE(usual.contains("deviations"));
  ASSERT_TRUE(odd.contains("deviations"));
  ASSERT_EQ(odd["deviations"].size(), 1u);
  EXPECT_NE(odd["deviations"][0].get<std::string>().find(" block.x of scale_kernel is 256, not 128"),
            std::string::npos);
  for (const nlohmann::json& one : odd["obligations"]) EXPECT_NE(one["status"], "proved");
  EXPECT_EQ(std::count_if(usual["obligations"].begin(), usual["obligations"].end(),
                          [](const nlohmann::json& one) { return one["status"] == "proved"; }),
            7);
}

// Numbers of a scalar's range that are not recorded are no constants: a launch with one of its ends has the block size of that
// end, but not the end for a parameter.
TEST_F(Command, a_scalar_is_no_constant_where_its_ends_launch_otherwise) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void scale_kernel(const float* x, float* y, int n, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
extern "C" void scale(const float* x, float* y, int n, float a, cudaStream_t stream) {
  const int threads = a == 8.0f ? 256 : 128;
  scale_kernel<<<(n + 127) / 128, threads, 0, stream>>>(x, y, n, a);
}
)";
  std::ofstream(folder_ / "k.toml") << R"([kernel]
source = "k.cu"
entry = "scale"
args = ["x", "y", "n", "a", "stream"]
[dims]
n = { min = 1, max = 100000 }
[scalars.a]
dtype = "f32"
range = [1, 8]
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = a * x[i]"
)";
  const auto result = subject::run_command(
      {std::string(kBinaryFolder) + "/bin/assay", "prove", (folder_ / "k.toml").string(), "--time", "10"},
      120);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output.find("= 1065353216"), std::string::npos) << result->output;  // 1.0f
}

TEST_F(Command, a_contract_that_cannot_be_read_is_wrong_use) {
  const auto result =
      subject::run_command({std::string(kBinaryFolder) + "/bin/assay", "prove", "/nonexistent.toml"}, 20);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 2);
}

}  // namespace
}  // namespace assay::prove
