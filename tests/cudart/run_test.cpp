// assay run: like valgrind, it adds a report and changes nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support.h"

namespace assay::cudart::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kAssay = kBinary + "/bin/assay";

Ended assay_run(std::vector<std::string> options, const std::vector<std::string>& program) {
  std::vector<std::string> command = {kAssay, "run"};
  command.insert(command.end(), options.begin(), options.end());
  command.push_back("--");
  command.insert(command.end(), program.begin(), program.end());
  return run(command, {{"LD_LIBRARY_PATH", ""}});
}

std::string temporary(const std::string& name) {
  return testing::TempDir() + "assay_" + std::to_string(getpid()) + name;
}

TEST(Run, PassesStatusAndOutputAndListsLaunches) {
  ASSAY_NEEDS_PROGRAM("static_destructor");
  Ended ended = assay_run({}, {kPrograms + "static_destructor"});
  EXPECT_EQ(ended.exit, 7) << ended.err;
  EXPECT_EQ(ended.out, "at the end 42\n");
  EXPECT_THAT(ended.err, HasSubstr("warp instructions"));
  EXPECT_THAT(ended.err, HasSubstr("assay: set "));
  EXPECT_EQ(assay_run({"--quiet"}, {kPrograms + "static_destructor"}).err, "");
}

TEST(Run, WritesJson) {
  ASSAY_NEEDS_PROGRAM("memory");
  std::string path = temporary(".json");
  EXPECT_EQ(assay_run({"--json", path, "--check=none", "--seed=3"}, {kPrograms + "memory"}).exit, 0);
  auto json = nlohmann::json::parse(read_file(path), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["exit"], 0);
  bool found = false;
  for (const auto& launch : json["launches"])
    if (launch["kernel"] == "add") {
      found = true;
      EXPECT_EQ(launch["grid"], "40");
      EXPECT_EQ(launch["block"], "256");
      EXPECT_EQ(launch["count"], 2);
      EXPECT_GT(launch["warp_instructions"], 1000);
    }
  EXPECT_TRUE(found) << json.dump(1);
  unlink(path.c_str());
}

TEST(Run, FindsAndSuppresses) {
  ASSAY_NEEDS_PROGRAM("overrun");
  std::vector<std::string> program = {kPrograms + "overrun"};
  Ended plain = assay_run({}, program);
  // The launch runs to its end for the report's sake, and then gives the program the error that it earned.
  EXPECT_EQ(plain.exit, 1) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("illegal memory access"));
  EXPECT_THAT(plain.err, HasSubstr("overrun.cu:"));
  EXPECT_THAT(plain.err, HasSubstr("overrun.cu:9 (main)"));
  EXPECT_THAT(plain.err, HasSubstr("1 finding"));
  EXPECT_EQ(assay_run({"--error-exit=9"}, program).exit, 9);
  EXPECT_EQ(assay_run({"--error-exit"}, {kPrograms + "overrun", "with", "arguments"}).exit, 1);
  // Unwatched, the access is a fault at once.
  Ended unwatched = assay_run({"--check=none"}, program);
  EXPECT_EQ(unwatched.exit, 1);
  EXPECT_THAT(unwatched.out, HasSubstr("illegal memory access"));
  std::string path = temporary(".suppressions");
  std::ofstream(path) << "# known\n* one_too_many\n";
  Ended quiet = assay_run({"--error-exit=9", "--suppressions", path}, program);
  EXPECT_EQ(quiet.exit, 0);
  EXPECT_THAT(quiet.err, HasSubstr("0 findings, 1 suppressed"));
  unlink(path.c_str());
}

// What was found before a program was killed is told.
TEST(Run, FindingsOutliveTheProgram) {
  ASSAY_NEEDS_PROGRAM("endless_overrun");
  const Ended ended =
      assay_run({}, {"/usr/bin/timeout", "--signal=KILL", "4", kPrograms + "endless_overrun"});
  EXPECT_THAT(ended.err, HasSubstr("endless_overrun.cu:4: error: out-of-bounds"));
  EXPECT_THAT(ended.err, HasSubstr("1 finding"));
}

TEST(Run, SignalsPassThrough) {
  Ended ended = assay_run({}, {"/bin/sleep", "0"});
  EXPECT_EQ(ended.exit, 0);
  // A program that dies by a signal takes the same way out.
  Ended died = assay_run({"--quiet"}, {"/usr/bin/env", "sh", "-c", "kill -TERM $$"});
  EXPECT_EQ(died.signal, SIGTERM);
}

TEST(Run, SaysWhyAProgramCannotRun) {
  ASSAY_NEEDS_PROGRAM("probe_static");
  EXPECT_THAT(assay_run({}, {kPrograms + "probe_static"}).err,
              HasSubstr("link it with `nvcc -cudart shared`"));
  EXPECT_EQ(assay_run({}, {kPrograms + "probe_static"}).exit, 2);
}

TEST(Run, RefusesWhatIsNoProgram) {
  std::string path = temporary(".sh");
  std::ofstream(path) << "#!/bin/sh\ntrue\n";
  chmod(path.c_str(), 0755);
  EXPECT_THAT(assay_run({}, {path}).err, HasSubstr("is a script"));
  std::ofstream(path) << "\x7f"
                         "ELF, but no more";
  EXPECT_THAT(assay_run({}, {path}).err, HasSubstr("is not an ELF program"));
  unlink(path.c_str());
  EXPECT_THAT(assay_run({}, {"/no/such/program"}).err, HasSubstr("no such program"));
  EXPECT_EQ(assay_run({}, {"/no/such/program"}).exit, 2);
  EXPECT_THAT(assay_run({"--check=nonsense"}, {"/bin/true"}).err, HasSubstr("unknown check 'nonsense'"));
  EXPECT_THAT(assay_run({"--suppressions", "/no/such/file"}, {"/bin/true"}).err, HasSubstr("cannot be read"));
}

TEST(Run, SaysInOneLineWhatIsWrongWithItsArguments) {
  for (const char* wrong : {"--nonsense", "--threads=x"}) {
    const auto refused = assay_run({wrong}, {"/bin/true"});
    EXPECT_EQ(refused.exit, 2) << wrong;
    EXPECT_THAT(refused.err, testing::MatchesRegex("assay: .*; see `assay run --help`\n")) << wrong;
  }
}

TEST(Isa, ListsTheTable) {
  Ended ended = run({kAssay, "isa", "fma"});
  EXPECT_EQ(ended.exit, 0);
  EXPECT_THAT(ended.out, HasSubstr("fma"));
  EXPECT_THAT(ended.out, Not(HasSubstr("ld.global")));
  EXPECT_THAT(ended.out, HasSubstr("forms of sm_90 run"));
}

}  // namespace
}  // namespace assay::cudart::test
