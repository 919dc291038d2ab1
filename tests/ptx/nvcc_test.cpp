// What nvcc emits, parses and survives printing: several programs, architectures and levels of debugging.
#include <cstdlib>

#include "folders.h"
#include "support.h"

namespace assay::ptx {
namespace {

namespace fs = std::filesystem;

std::string find_nvcc() {
  std::vector<fs::path> folders;
  std::stringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(fs::path(home) / "bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders)
    if (fs::exists(folder / "nvcc")) return folder / "nvcc";
  return "";
}

struct Build {
  const char *source, *architecture, *options;
};

class Nvcc : public testing::TestWithParam<Build> {};

TEST_P(Nvcc, OutputParses) {
  static const std::string nvcc = find_nvcc();
  if (nvcc.empty()) GTEST_SKIP() << "no nvcc";
  const Build& build = GetParam();
  fs::path source = fs::path(kSourceFolder) / "tests/ptx/cuda" / build.source;
  fs::path folder = fs::path(kBinaryFolder) / "nvcc_test";
  fs::create_directories(folder);
  fs::path out = folder / (std::string(build.source) + "." + build.architecture + ".ptx");
  std::string command = "'" + nvcc + "' -std=c++17 -w -ptx -arch=" + build.architecture + " " +
                        build.options + " '" + source.string() + "' -o '" + out.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  Result<Module> module = parse(read_file(out), out.filename().string());
  ASSERT_TRUE(module) << module.error().text();
  size_t instructions = 0, located = 0;
  for (const Function& function : module->functions) {
    for (const Instruction& instruction : function.body) located += instruction.location != kNone;
    instructions += function.body.size();
  }
  EXPECT_GT(instructions, 50u);
  if (std::string(build.options) != "-O3") {
    EXPECT_GT(located, instructions / 2);
  }
  expect_round_trip(*module, out.filename());
}

INSTANTIATE_TEST_SUITE_P(Ptx, Nvcc,
                         testing::Values(Build{"everyday.cu", "compute_75", "-O3"},
                                         Build{"cooperative.cu", "compute_80", "-G"},
                                         Build{"matrix.cu", "compute_90a", "-lineinfo"},
                                         Build{"hopper.cu", "compute_100", "-O3"},
                                         Build{"matrix.cu", "compute_120", "-lineinfo -Xcicc -O0"}));

}  // namespace
}  // namespace assay::ptx
