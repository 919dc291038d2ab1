// Values held against the formula: right and wrong kernels, element by element and row by row, at shapes that no trial
// could run.
#include "prove/values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "folders.h"
#include "prove/values_inputs.h"
#include "subject/device_code.h"

namespace assay::prove {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Values : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("assay-values-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  contract::Contract contract(const std::string& file, const std::string& source, const std::string& toml) {
    std::ofstream(folder_ / file) << source;
    std::ofstream(folder_ / "contract.toml") << toml;
    auto loaded = contract::load((folder_ / "contract.toml").string());
    EXPECT_TRUE(loaded) << loaded.error().text();
    return *loaded;
  }

  static ValuesOutcome compare(const contract::Contract& contract, const std::vector<std::string>& kernels,
                               std::vector<contract::Shape> examples = {}) {
    const auto built = subject::build(contract, {});
    EXPECT_TRUE(built.subject) << built.failure.error.text() << built.failure.output;
    if (!built.subject) return {};
    const auto texts = subject::device_code(*built.subject, contract.kernel.arch);
    std::vector<ptx::Module> modules;
    for (const std::string& text : *texts) modules.push_back(*ptx::parse(text, "k.ptx"));
    ValuesSetting setting{.contract = contract,
                          .subject = *built.subject,
                          .texts = *texts,
                          .modules = modules,
                          .examples = examples,
                          .kernels = kernels};
    setting.seconds = 20;
    setting.runner.worker = std::string(kBinaryFolder) + "/bin/assay-worker";
    setting.runner.cudart = std::string(kBinaryFolder) + "/lib";
    return compare_values(setting);
  }

  static std::string reasons(const ValuesOutcome& outcome) {
    std::string text;
    for (const Place& place : outcome.obligation.open) text += place.reason + "\n";
    return text;
  }

  fs::path folder_;
};

// ---- element-wise, in PTX

// y[i] = 2 x[i] + 1, of f16. `index` computes %rd5, the element that is read, from %rd4, the thread's own.
class Elementwise : public Values {
 protected:
  ValuesOutcome run(const std::string& index, const std::string& factor = "0f40000000",
                    int64_t most = 6'000'000'000) {
    const std::string source = fmt::format(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 n)
{{
  .reg .pred %p; .reg .b16 %h<3>; .reg .f32 %f<4>; .reg .u32 %r<4>; .reg .u64 %rd<12>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd4, %r1, 256; cvt.u64.u32 %rd6, %r2; add.u64 %rd4, %rd4, %rd6;
  setp.ge.u64 %p, %rd4, %rd3;
  @%p bra DONE;
  {}
  shl.b64 %rd7, %rd5, 1; add.u64 %rd7, %rd1, %rd7;
  ld.global.b16 %h1, [%rd7];
  cvt.f32.f16 %f1, %h1;
  fma.rn.f32 %f2, %f1, {}, 0f3F800000;
  cvt.rn.f16.f32 %h2, %f2;
  shl.b64 %rd8, %rd4, 1; add.u64 %rd8, %rd2, %rd8;
  st.global.b16 [%rd8], %h2;
DONE:
  ret;
}}
)",
                                           index, factor);
    const std::string toml = fmt::format(R"toml([kernel]
source = "k.ptx"
global = "k"
args = ["x", "y", "n"]
grid = ["ceil_div(n, 256)"]
block = [256]
[dims]
n = {{ min = 1, max = {}, type = "i64" }}
[tensors.x]
dtype = "f16"
shape = ["n"]
[tensors.y]
dtype = "f16"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = 2 * x[i] + 1"
)toml",
                                         most);
    return compare(contract("k.ptx", source, toml), {"k"});
  }
};

constexpr const char* kOwnElement = "mov.u64 %rd5, %rd4;";
// Right up to 2^32 elements, and within bounds beyond.
constexpr const char* kIndexIn32Bits = "cvt.u32.u64 %r3, %rd4; cvt.u64.u32 %rd5, %r3;";

TEST_F(Elementwise, a_right_kernel_agrees_beyond_2_to_the_32) {
  const ValuesOutcome outcome = run(kOwnElement);
  EXPECT_EQ(outcome.obligation.status, Status::Agrees) << reasons(outcome);
  EXPECT_GT(outcome.obligation.compared.elements, 200u);
  EXPECT_GT(outcome.obligation.compared.largest.at("n"), int64_t{1} << 32);
  EXPECT_THAT(outcome.obligation.reason, HasSubstr("the largest shape is n=6000000000"));
  EXPECT_TRUE(outcome.trials.empty());
}

TEST_F(Elementwise, a_wrong_factor_differs_at_the_smallest_shape) {
  const ValuesOutcome wrong = run(kOwnElement, "0f40010000");
  EXPECT_EQ(wrong.obligation.status, Status::Unknown);
  ASSERT_FALSE(wrong.trials.empty());
  EXPECT_LT(wrong.trials.front().shape.at("n"), 100);
  EXPECT_THAT(reasons(wrong), HasSubstr("should be"));
}

TEST_F(Elementwise, an_index_in_32_bits_differs_only_where_no_trial_can_go) {
  const ValuesOutcome outcome = run(kIndexIn32Bits);
  EXPECT_EQ(outcome.obligation.status, Status::Unknown);
  ASSERT_FALSE(outcome.trials.empty());
  for (const trial::Trial& trial : outcome.trials) EXPECT_GT(trial.shape.at("n"), int64_t{1} << 32);
  EXPECT_EQ(run(kIndexIn32Bits, "0f40000000", int64_t{1} << 32).obligation.status, Status::Agrees);
}

// Wrong from 2000 elements on, at multiples of four: the shapes that are tried first are rarely both.
TEST_F(Elementwise, a_difference_at_a_large_shape_is_looked_for_at_a_small_one) {
  const ValuesOutcome outcome =
      run("mov.u64 %rd5, %rd4; and.b64 %rd9, %rd3, 3; setp.ne.u64 %p, %rd9, 0; @%p bra OK; "
          "setp.lt.u64 %p, %rd3, 2000; @%p bra OK; mov.u64 %rd5, 0; OK:",
          "0f40000000", 6'000'000'000);
  ASSERT_FALSE(outcome.trials.empty());
  EXPECT_LT(outcome.trials.front().shape.at("n"), 10'000);
  EXPECT_EQ(outcome.trials.front().shape.at("n") % 4, 0);
}

// Reads past the end, from 2000 elements on.
TEST_F(Elementwise, nothing_agrees_where_a_block_was_seen_out_of_bounds) {
  const ValuesOutcome outcome =
      run("mov.u64 %rd5, %rd4; setp.lt.u64 %p, %rd3, 2000; @%p bra OK; mov.u64 %rd5, %rd3; add.u64 %rd5, "
          "%rd5, 100000; OK:");
  EXPECT_EQ(outcome.obligation.status, Status::Unknown);
  EXPECT_GT(outcome.obligation.compared.elements, 0u);
  EXPECT_THAT(reasons(outcome), HasSubstr("out of bounds or misaligned, at n="));
}

// ---- rows, in CUDA C++

constexpr const char* kRowKernels = R"(
#include <math_constants.h>
__device__ float block_sum(float own) {
  __shared__ float parts[8];
  for (int at = 16; at > 0; at >>= 1) own += __shfl_down_sync(0xffffffff, own, at);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  float all = 0;
  for (int i = 0; i < 8; ++i) all += parts[i];
  return all;
}
__global__ void row(const float* x, float* y, int rows, int cols) {
  const float* own = x + size_t(blockIdx.x) * cols;
  float sum = 0;
  for (int c = threadIdx.x; c < COLS; c += 256) sum += own[c] * own[c];
  const float scale = 1 / sqrtf(block_sum(sum) / cols + 1e-5f);
  for (int c = threadIdx.x; c < cols; c += 256) y[size_t(blockIdx.x) * cols + c] = own[c] * scale;
}
__global__ void sums(const float* x, float* w, int cols) {
  float sum = 0;
  for (int c = 0; c < cols; ++c) sum += x[size_t(blockIdx.x) * cols + c] * x[size_t(blockIdx.x) * cols + c];
  w[blockIdx.x] = sum;
}
__global__ void scaled(const float* x, const float* w, float* y, int cols) {
  const float scale = 1 / sqrtf(w[blockIdx.x] / cols + 1e-5f);
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[size_t(blockIdx.x) * cols + c] = x[size_t(blockIdx.x) * cols + c] * scale;
}
extern "C" void rms(const float* x, float* y, int rows, int cols, void* work, cudaStream_t stream) {
#ifdef TWO_KERNELS
  sums<<<rows, 1, 0, stream>>>(x, (float*)work, cols);
  scaled<<<rows, 256, 0, stream>>>(x, (float*)work, y, cols);
#else
  row<<<rows, 256, 0, stream>>>(x, y, rows, cols);
#endif
}
)";

class Rows : public Values {
 protected:
  void SetUp() override {
    if (subject::find_nvcc().empty()) GTEST_SKIP() << "nvcc was not found";
    Values::SetUp();
  }

  ValuesOutcome run(const std::string& defines, const std::vector<std::string>& kernels) {
    return compare(contract("k.cu", defines + kRowKernels, R"toml([kernel]
source = "k.cu"
entry = "rms"
args = ["x", "y", "R", "C", "workspace", "stream"]
workspace_bytes = "4 * R"
[dims]
R = { min = 1, max = 200000 }
C = { min = 1, max = 16384 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["R", "C"]
role = "out"
[reference]
formula = "y[r, c] = x[r, c] / sqrt(mean[k](x[r, k] * x[r, k]) + 1e-5)"
)toml"),
                   kernels);
  }
};

TEST_F(Rows, a_right_reduction_agrees_with_rows_beyond_2_to_the_31) {
  const ValuesOutcome outcome = run("#define COLS cols\n", {"_Z3rowPKfPfii"});
  EXPECT_EQ(outcome.obligation.status, Status::Agrees) << reasons(outcome);
  const contract::Shape& largest = outcome.obligation.compared.largest;
  EXPECT_GT(largest.at("R") * largest.at("C"), int64_t{1} << 31) << contract::to_string(largest);
}

TEST_F(Rows, columns_that_are_left_out_differ) {
  const ValuesOutcome outcome = run("#define COLS cols / 4 * 4\n", {"_Z3rowPKfPfii"});
  EXPECT_EQ(outcome.obligation.status, Status::Unknown);
  EXPECT_FALSE(outcome.trials.empty());
}

TEST_F(Rows, what_one_kernel_leaves_to_another_is_compared_only_where_both_can_be_run) {
  const ValuesOutcome outcome =
      run("#define COLS cols\n#define TWO_KERNELS\n", {"_Z4sumsPKfPfi", "_Z6scaledPKfS0_Pfi"});
  EXPECT_EQ(outcome.obligation.status, Status::Agrees) << reasons(outcome);
  EXPECT_LT(outcome.obligation.compared.largest.at("R"), 1000);
  EXPECT_THAT(outcome.obligation.reason, HasSubstr("read what other blocks or kernels write"));
}

TEST_F(Rows, a_kernel_that_was_never_run_keeps_the_answer_open) {
  const ValuesOutcome outcome = run("#define COLS cols\n", {"_Z3rowPKfPfii", "another"});
  EXPECT_EQ(outcome.obligation.status, Status::Unknown);
  EXPECT_THAT(reasons(outcome), HasSubstr("no element that another stores was compared"));
}

// ---- inputs that are made as they are read

TEST(ValuesInputs, the_formula_and_the_device_see_the_same_elements_of_a_giant_input) {
  const auto contract = contract::parse(R"toml([kernel]
source = "k.ptx"
global = "k"
args = ["x", "y"]
grid = [1]
block = [1]
[dims]
R = { min = 1, max = 3000000 }
C = { min = 1, max = 1024 }
[tensors.x]
dtype = "f32"
shape = ["R", "C"]
[tensors.y]
dtype = "f32"
shape = ["R"]
role = "out"
[reference]
formula = "y[r] = sum[c](x[r, c])"
)toml",
                                        "test.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  auto inputs = prove::ValuesInputs::make(*contract, {{"R", 3000000}, {"C", 1024}}, 0);
  ASSERT_TRUE(inputs) << inputs.error().text();
  const auto reference = reference::Reference::make(*contract);
  const std::vector<int64_t> rows = {0, 2999999};
  const auto expected = reference->expect(inputs->bindings(), "y", rows, inputs->options(false));
  ASSERT_TRUE(expected) << expected.error().text();
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> row(1024);
    inputs->copy(*contract->tensor("x"), rows[i] * 1024, 1024, reinterpret_cast<std::byte*>(row.data()));
    double sum = 0;
    for (const float value : row) sum += value;
    EXPECT_NEAR(expected->value[i], sum, 1e-9);
    EXPECT_NE(sum, 0);
  }
  EXPECT_NE(expected->value[0], expected->value[1]);
}

TEST(ValuesInputs, a_formula_that_reads_too_much_is_refused_instead_of_filling_memory) {
  const auto contract = contract::parse(R"toml([kernel]
source = "k.ptx"
global = "k"
args = ["x", "y"]
grid = [1]
block = [1]
[dims]
n = { min = 1, max = 3000000000, type = "i64" }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = []
role = "out"
[reference]
formula = "y = sum[i](x[i])"
)toml",
                                        "test.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  auto inputs = prove::ValuesInputs::make(*contract, {{"n", 3000000000}}, 0);
  ASSERT_TRUE(inputs) << inputs.error().text();
  const auto reference = reference::Reference::make(*contract);
  const int64_t only = 0;
  const auto expected = reference->expect(inputs->bindings(), "y", {&only, 1}, inputs->options(false));
  ASSERT_FALSE(expected);
  EXPECT_THAT(expected.error().message, HasSubstr("more elements of `x` are needed than can be generated"));
}

}  // namespace
}  // namespace assay::prove
