// A folder of one's own, host code that is compiled once, and contracts and trials of y[i] = x[i].
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "contract/contract.h"
#include "folders.h"
#include "subject/process.h"
#include "trial/trial.h"

namespace assay::subject {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "assay-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline contract::Contract contract_in(const Folder& folder, const std::string& source,
                                      const std::string& kernel) {
  const std::string text = "[kernel]\nsource = \"" + source + "\"\n" + kernel + R"(
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 0, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["n"]
align = 4
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = x[i]"
)";
  auto contract = contract::parse(text, folder.path("k.toml"));
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

inline trial::Trial trial_of(int64_t n) {
  trial::Trial trial;
  trial.shape = {{"n", n}};
  return trial;
}

// Tests of what subjects/host.cpp does: folder_ holds it as subject.so, for all tests of a suite.
class HostCodeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    const std::string source = std::string(kSourceFolder) + "/tests/subject/subjects/host.cpp";
    const auto built = run_command(
        {"c++", "-shared", "-fPIC", "-w", "-pthread", source, "-o", folder_->path("subject.so")}, 60);
    ASSERT_TRUE(built);
    ASSERT_EQ(built->status, 0) << built->output;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static inline Folder* folder_ = nullptr;
};

}  // namespace assay::subject
