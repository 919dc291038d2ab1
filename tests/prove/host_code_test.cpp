// Host code that does not behave: it launches otherwise at a shape that was not tried, or takes its time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "assayer/assayer.h"
#include "prove/launch_log.h"
#include "prove/prove.h"

namespace assay::prove {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// No shape that anybody tries by chance, and none that the prover reads in the code: 321 is taken from it at run time.
constexpr int64_t kOddShape = 654321;

class HostCode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (subject::find_nvcc().empty()) GTEST_SKIP() << "nvcc was not found";
    folder_ = fs::temp_directory_path() / fmt::format("assay-host-code-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Doubles n numbers. `host`: what the host code does before the launch, with `threads` of a block to change; `index`:
  // of the element that a thread reads.
  contract::Contract contract(const std::string& host, const std::string& index = "i") const {
    std::ofstream(folder_ / "k.cu") << fmt::format(R"(
#include <time.h>
__global__ void twice_kernel(const float* x, float* y, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[{}];
}}
extern "C" void twice(const float* x, float* y, int n, cudaStream_t stream) {{
  int threads = 128;
  {}
  twice_kernel<<<(n + 127) / 128, threads, 0, stream>>>(x, y, n);
}}
)",
                                                   index, host);
    auto contract = contract::parse(R"([kernel]
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
)",
                                    (folder_ / "k.toml").string());
    EXPECT_TRUE(contract) << contract.error().text();
    return *contract;
  }

  static const Obligation& named(const Proof& proof, std::string_view name) {
    for (const Obligation& one : proof.obligations)
      if (one.name == name) return one;
    static const Obligation none;
    return none;
  }

  fs::path folder_;
};

std::string at_odd_shape(const std::string& what) {
  return fmt::format("volatile int odd = 321; if (n - odd == {}) {}", kOddShape - 321, what);
}

TEST_F(HostCode, a_trial_at_an_untried_shape_makes_proofs_void) {
  const contract::Contract odd = contract(at_odd_shape("threads = 256;"));
  const Proof proof = prove(odd, {});
  ASSERT_EQ(named(proof, "bounds").status, Status::Proved) << named(proof, "bounds").reason;
  Json held = to_json(proof);

  LaunchLog log(odd);
  assayer::CheckOptions options;
  options.launched = [&](const trial::Trial& t, const subject::Observation& seen) { log.add(t, seen); };
  trial::Trial trial;
  trial.shape = {{"n", 1000}};
  assayer::replay(odd, trial, Kind::WrongResult, options);
  log.hold(held);
  EXPECT_EQ(held["obligations"][2]["status"], "proved");

  trial.shape = {{"n", kOddShape}};
  assayer::replay(odd, trial, Kind::WrongResult, options);
  log.hold(held);
  for (const Json& obligation : held["obligations"])  // values were compared, whatever the relation says
    EXPECT_EQ(obligation["status"], obligation["obligation"] == "values" ? "agrees" : "unknown");
  EXPECT_EQ(held["obligations"][2]["reason"],
            "the launch relation does not hold: at n=654321 block.x of twice_kernel is 256, not 128");
}

TEST_F(HostCode, so_does_a_replay_of_a_counterexample) {
  const Proof proof = prove(
      contract(
          at_odd_shape("threads = 256;"),
          fmt::format("n - 321 * static_cast<int>(blockDim.y) == {} && i == 0 ? n : i", kOddShape - 321)),
      {});
  EXPECT_EQ(named(proof, "bounds").status, Status::Refuted);
  EXPECT_EQ(named(proof, "alignment").status, Status::Unknown);
  EXPECT_THAT(named(proof, "alignment").reason, HasSubstr("the launch relation does not hold"));
  EXPECT_EQ(proof.deviations.size(), 1u);
}

// With few shapes, an expression over the dims is easily found for a number that is no function of them.
TEST_F(HostCode, a_scalar_is_no_function_of_the_dims) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void put_kernel(float* y, int at) { y[at] = 1; }
extern "C" void put(float* y, int at, cudaStream_t stream) { put_kernel<<<1, 1, 0, stream>>>(y, at); }
)";
  const auto contract = contract::parse(R"([kernel]
source = "k.cu"
entry = "put"
args = ["y", "at", "stream"]
[dims]
n = { min = 63, max = 64 }
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "inout"
[scalars.at]
dtype = "i32"
range = [0, 63]
[reference]
formula = "y[i] = y[i]"
)",
                                        (folder_ / "k.toml").string());
  ASSERT_TRUE(contract) << contract.error().text();
  const Proof proof = prove(*contract, {});
  EXPECT_EQ(named(proof, "bounds").status, Status::Refuted);  // at n=63 with at=63
  ASSERT_EQ(proof.launches.size(), 1u);
  EXPECT_EQ(proof.launches[0].relation, "grid.x = 1, block.x = 1, parameter 0 -> y");
}

// What the shapes that a relation is inferred from do not show, those that it is checked at do; it is inferred again with them.
TEST_F(HostCode, a_path_that_only_later_shapes_take_becomes_a_case) {
  std::ofstream(folder_ / "k.cu") << R"(
__global__ void one(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }
__global__ void other(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }
extern "C" void put(float* y, int n, cudaStream_t stream) {
  if (n >= 700 && n < 720) other<<<1, 32, 0, stream>>>(y, n);
  else one<<<1, 64, 0, stream>>>(y, n);
}
)";
  const auto contract = contract::parse(R"([kernel]
source = "k.cu"
entry = "put"
args = ["y", "n", "stream"]
[dims]
n = { min = 1, max = 1000 }
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "inout"
[reference]
formula = "y[i] = y[i]"
)",
                                        (folder_ / "k.toml").string());
  ASSERT_TRUE(contract) << contract.error().text();
  const auto built = subject::build(*contract, {});
  ASSERT_TRUE(built.subject) << built.failure.error.text();
  const auto relation = infer(*contract, *built.subject, {.fitted = 3});
  ASSERT_TRUE(relation);
  EXPECT_THAT(relation->gaps, IsEmpty());
  EXPECT_TRUE(relation->all);
  ASSERT_EQ(relation->cases.size(), 2u);
  for (const Case& one : relation->cases) {
    ASSERT_EQ(one.launches.size(), 1u);
    EXPECT_EQ(one.launches[0].block[0]->value, one.example.at("n") / 20 == 35 ? 32 : 64);
  }
}

TEST_F(HostCode, that_takes_long_is_not_waited_for) {
  const contract::Contract slow = contract("const timespec third{0, 333000000}; nanosleep(&third, nullptr);");
  const auto began = std::chrono::steady_clock::now();
  const Proof proof = prove(slow, {.only = {"bounds"}, .recording_seconds = 1});
  EXPECT_LT(std::chrono::steady_clock::now() - began,
            std::chrono::seconds(60));  // of 250 calls, with a third of a second each
  EXPECT_EQ(named(proof, "bounds").status, Status::Unknown);
  EXPECT_THAT(named(proof, "bounds").reason, HasSubstr("shapes only in 1 s"));
}

TEST_F(HostCode, replays_have_a_limit_of_their_own) {
  const contract::Contract wrong = contract("", "i + 1");
  EXPECT_EQ(named(prove(wrong, {}), "bounds").status, Status::Refuted);
  const Proof without = prove(wrong, {.replay_seconds = 0});
  EXPECT_EQ(named(without, "bounds").status, Status::Unknown);
  EXPECT_THAT(without.findings, IsEmpty());
  ASSERT_FALSE(without.gaps.empty());
  EXPECT_THAT(without.gaps.front(), HasSubstr("not run"));
}

}  // namespace
}  // namespace assay::prove
