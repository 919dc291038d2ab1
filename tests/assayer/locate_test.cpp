#include "assayer/locate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace assay::assayer {
namespace {

namespace fs = std::filesystem;

class Locate : public ::testing::Test {
 protected:
  TemporaryFolder folder_{"locate"};
  std::string original_ = written("mine.py"), copy_ = written("copy.py");
  contract::Contract contract_ = contract_of_a_copy();

  std::string written(const char* name) {
    const std::string path = folder_.file(name);
    std::ofstream(path) << "def run(x):\n    return x\n";
    return path;
  }
  contract::Contract contract_of_a_copy() {
    contract::Contract contract;
    contract.path = folder_.file("contract.toml");
    contract.kernel.python = {"copy.py", "run"};
    contract.kernel.sources = {"copy.py"};
    contract.origin = {.answer = original_,
                       .function_file = "copy.py",
                       .function_line = 7,
                       .files = {{"copy.py", original_}}};
    return contract;
  }
  Finding located(Kind kind, const std::optional<LastKernel>& last) {
    Finding finding{.kind = kind, .evidence = evidence::Numeric{}};
    locate(contract_, {}, last, finding);
    return finding;
  }
};

TEST_F(Locate, NumbersBelongToTheKernelThatRanLast) {
  const LastKernel kernel{"scale", {"/a/k.py", 12}, {{"/a/k.py", 30}, "forward", true}};
  EXPECT_EQ(located(Kind::WrongResult, kernel).where, (Where{"/a/k.py", 12}));
  const LastKernel without_lines{"scale", {}, {{"/a/k.py", 30}, "forward", true}};
  EXPECT_EQ(located(Kind::WrongResult, without_lines).where, (Where{"/a/k.py", 30}));
  EXPECT_EQ(located(Kind::WrongResult, LastKernel{"scale", {}, {}}).where, (Where{copy_, 7}));
}

TEST_F(Locate, OtherFindingsBelongToTheFunction) {
  const LastKernel kernel{"scale", {"/a/k.py", 12}, {}};
  EXPECT_EQ(located(Kind::NoKernel, kernel).where, (Where{copy_, 7}));
  contract_.origin = {};
  EXPECT_EQ(located(Kind::NoKernel, kernel).where, (Where{copy_, 1}));  // def run
}

TEST_F(Locate, CopiesHaveTheNamesOfTheirOriginals) {
  fs::last_write_time(copy_, fs::last_write_time(original_) + std::chrono::seconds(1));
  Finding finding{.kind = Kind::WrongResult, .where = {copy_, 2}};
  evidence::Numeric numeric;
  numeric.launched_at.stack = {{{copy_, 3}, "forward", true}};
  Profile profile;
  profile.lines.push_back({.where = {copy_, 4}});
  numeric.profile = std::make_shared<const Profile>(profile);
  finding.evidence = numeric;
  std::vector<Finding> findings = {finding};
  name_originals(contract_, findings);
  const auto& named = std::get<evidence::Numeric>(findings[0].evidence);
  EXPECT_EQ(findings[0].where, (Where{original_, 2}));
  EXPECT_EQ(named.launched_at.stack[0].where, (Where{original_, 3}));
  EXPECT_EQ(named.profile->lines[0].where, (Where{original_, 4}));
}

TEST_F(Locate, AnOriginalThatHasChangedIsNoLongerNamed) {
  fs::last_write_time(original_, fs::last_write_time(copy_) + std::chrono::seconds(1));
  std::vector<Finding> findings = {Finding{.kind = Kind::WrongResult, .where = {copy_, 2}}};
  name_originals(contract_, findings);
  EXPECT_EQ(findings[0].where, (Where{copy_, 2}));
}

}  // namespace
}  // namespace assay::assayer
