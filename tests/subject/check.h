// The program `assay` on kernels of y[i] = x[i] + x[i], from a contract to an exit status.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folders.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::subject {

namespace fs = std::filesystem;
using nlohmann::json;

class CheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
    // The same for all tests of a run: a source at the same path with the same text is compiled once.
    folder_ = fs::temp_directory_path() / ("assay-check-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  CommandResult assay(std::vector<std::string> args) {
    args.insert(args.begin(), std::string(kBinaryFolder) + "/bin/assay");
    auto result = run_command(args, 120);
    EXPECT_TRUE(result);
    return result ? *result : CommandResult{};
  }
  json report() const { return json::parse(std::ifstream(folder_ / "report.json")); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string example(const char* name) const {
    return std::string(kSourceFolder) + "/examples/embedding_gradient/" + name;
  }
  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // Its source, from what a thread does and how it is launched.
  static std::string kernel(
      const std::string& body,
      const std::string& host = "twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);") {
    return "#include <cuda_runtime.h>\n__global__ void twice(const float* x, float* y, int n) {\n"
           "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  " +
           body +
           "\n}\n"
           "extern \"C\" void k(const float* x, float* y, int n, cudaStream_t stream) {\n  " +
           host + "\n}\n";
  }

  // Writes it and the contract of y[i] = x[i] + x[i].
  void write_kernel(const std::string& source, const std::string& more = "") const {
    write("k.cu", source);
    write("k.toml", R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i] + x[i]"
)" + more);
  }
  int check_kernel(const std::string& source, const std::string& more = "", const char* budget = "3") {
    write_kernel(source, more);
    last_ = assay({"check", path("k.toml"), "--json", path("report.json"), "--budget", budget});
    return last_.status;
  }
  std::string kind() const {
    const json all = report();
    return all["findings"].empty() ? "" : all["findings"][0]["kind"].get<std::string>();
  }

  fs::path folder_;
  CommandResult last_;
};

}  // namespace assay::subject
