// `assay check --device auto` with the virtual runtime in the place of a GPU's: what both devices see is one finding.
//
// Host code can tell the two here, as a program of this machine could: the variables that the virtual device was set up
// with are gone. So a kernel can have a defect that one device alone shows, as on a real GPU.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "folders.h"
#include "subject/process.h"
#include "subject/subject.h"
#include "support.h"

namespace assay::subject {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr const char* kContract = R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 5000 }
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

constexpr const char* kKernel = R"(#include <cuda_runtime.h>
#include <string.h>
extern char** environ;
static bool on_gpu() {
  for (char** entry = environ; *entry; ++entry)
    if (strncmp(*entry, "LD_LIBRARY_PATH=", 16) == 0) return true;
  return false;
}
__global__ void twice(const float* x, float* y, int n, bool overruns, bool hides_nan, bool is_wrong) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 0.0f;
  if (hides_nan) v = fmaxf(v, -3.402823466e38f);  // finite numbers stay as they are
  if (is_wrong && i == 3) v = v * 3 + 1;
  if (i < n || (overruns && i == n)) y[i] = 2 * v;
}
extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  const bool gpu = on_gpu();
  twice<<<n / 128 + 1, 128, 0, stream>>>(x, y, n, DEFECTS);
}
)";

class TwoDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
    setenv("ASSAY_CUDA_RUNTIME", (std::string(kBinaryFolder) + "/lib").c_str(), 1);
  }
  void TearDown() override { unsetenv("ASSAY_CUDA_RUNTIME"); }

  // The errors, with the devices that showed each; `defects`: overruns, hides_nan, is_wrong.
  std::multimap<std::string, std::vector<std::string>> errors(const std::string& defects,
                                                              const std::vector<std::string>& options) {
    std::string source = kKernel;
    source.replace(source.find("DEFECTS"), 7, defects);
    folder_.write("k.cu", source);
    std::vector<std::string> command = {std::string(kBinaryFolder) + "/bin/assay",
                                        "check",
                                        folder_.write("k.toml", kContract),
                                        "--json",
                                        folder_.path("report.json"),
                                        "--device",
                                        "auto",
                                        "--budget",
                                        "4",
                                        "--no-prove"};
    command.insert(command.end(), options.begin(), options.end());
    const auto ran = run_command(command, 120);
    std::multimap<std::string, std::vector<std::string>> found;
    std::ifstream file(folder_.path("report.json"));
    const json report = json::parse(file, nullptr, false);
    if (!ran || !report.is_object()) {
      ADD_FAILURE() << (ran ? ran->output : ran.error().text());
      return found;
    }
    for (const json& finding : report["findings"])
      if (finding["severity"] == "error")
        found.emplace(finding["kind"], finding["evidence"]["devices"].get<std::vector<std::string>>());
    return found;
  }

  const std::vector<std::string> both_ = {"virtual", "cuda"}, virtual_ = {"virtual"}, cuda_ = {"cuda"};
  Folder folder_;
};

TEST_F(TwoDevices, EachCauseIsOneFinding) {
  EXPECT_THAT(errors("false, true, true", {"--keep-going"}),
              UnorderedElementsAre(Pair("wrong-result", both_), Pair("nonfinite", both_)));
}

// The first failures of the two are different ones.
TEST_F(TwoDevices, ACauseThatOneDoesNotShowHidesNoOther) {
  EXPECT_THAT(errors("false, true, !gpu", {"--keep-going"}),
              UnorderedElementsAre(Pair("wrong-result", virtual_), Pair("nonfinite", both_)));
}

TEST_F(TwoDevices, WhatTheGpuAloneShowsIsKept) {
  EXPECT_THAT(errors("false, true, gpu", {"--keep-going"}),
              UnorderedElementsAre(Pair("nonfinite", both_), Pair("wrong-result", cuda_)));
  EXPECT_THAT(errors("false, false, gpu", {}), ElementsAre(Pair("wrong-result", cuda_)));
}

}  // namespace
}  // namespace assay::subject
