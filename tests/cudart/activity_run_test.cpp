// `assay run --memory --trace --html` of a program, end to end: what the files say is what the program did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "support.h"

namespace assay::cudart::test {
namespace {

using Json = nlohmann::json;

constexpr int kWords = 1000, kBytes = 4 * kWords;

class ActivityRun : public testing::Test {
 protected:
  Ended run_program(std::vector<std::string> options, const std::string& argument = "") {
    std::vector<std::string> command = {
        kBinary + "/bin/assay", "run", "--quiet", "--html", page_, "--trace", trace_};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", kPrograms + "activity"});
    if (!argument.empty()) command.push_back(argument);
    return run(command, {{"LD_LIBRARY_PATH", ""}});
  }
  static Json data_of(const std::string& path) {
    const std::string text = read_file(path), mark = "id=\"data\">";
    const std::size_t begin = text.find(mark) + mark.size();
    return Json::parse(text.substr(begin, text.find("</script>", begin) - begin), nullptr, false);
  }
  static void expect_all(const Json& page, bool ended) {
    ASSERT_EQ(page["allocations"].size(), 5u);
    const Json &whole = page["allocations"][0], &half = page["allocations"][1],
               &strided = page["allocations"][2], &target = page["allocations"][3],
               &unused = page["allocations"][4];
    for (const Json& one : page["allocations"]) {
      EXPECT_EQ(one["bytes"], kBytes);
      EXPECT_EQ(one["counted"], ended);
    }
    EXPECT_TRUE(target["end"].is_null());
    EXPECT_EQ(whole["end"].is_null(), !ended);
    EXPECT_EQ(page["counts"]["operations"], 3 + 15 + 1);
    if (!ended) return;
    EXPECT_EQ(whole["never_read"], 0);
    EXPECT_EQ(whole["never_written"], 0);
    EXPECT_EQ(half["never_read"], kBytes / 2);
    EXPECT_EQ(strided["never_read"], kBytes - kWords / 8 * 6);  // four bytes and two of every eight words
    EXPECT_EQ(target["never_read"], kBytes);
    EXPECT_EQ(target["never_written"], 0);
    EXPECT_EQ(unused["never_read"], kBytes);
    EXPECT_EQ(unused["never_written"], kBytes);
    EXPECT_EQ(unused["last_use"], 0);
    EXPECT_EQ(unused["writer"], "");
    EXPECT_THAT(target["writer"].get<std::string>(), testing::MatchesRegex("rows.*activity.cu:13"));
    EXPECT_GT(target["last_use"], whole["begin"]);
  }

  const TemporaryFolder folder_{"activity"};
  const std::string page_ = folder_.file("page.html"), trace_ = folder_.file("trace.json");
};

TEST_F(ActivityRun, BytesAndOperationsAreThoseOfTheProgram) {
  ASSAY_NEEDS_PROGRAM("activity");
  // One thread of the engine and several, interpreted and compiled.
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--threads=1", "--engine=interpret"}, {"--threads=4", "--engine=compile"}, {"--seed=3"}}) {
    SCOPED_TRACE(options.back());
    const Ended ended = run_program(options);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(ended.out, "ok\n");
    expect_all(data_of(page_), true);
    const Json trace = Json::parse(read_file(trace_), nullptr, false);
    std::map<std::string, int> count;
    for (const Json& event : trace["traceEvents"]) ++count[event.value("cat", event.value("name", ""))];
    EXPECT_EQ(count["kernel"], 16);
    EXPECT_EQ(count["gpu_memset"], 3);
    EXPECT_EQ(count["cuda_runtime"], 19);
    EXPECT_EQ(count["ac2g"], 38);
    EXPECT_EQ(count["allocated bytes"], 9);
  }
}

TEST_F(ActivityRun, MemoryOfAPoolIsUsedAgainInStreamOrder) {
  ASSAY_NEEDS_PROGRAM("activity");
  ASSERT_EQ(run_program({}, "pool").exit, 0);
  const Json page = data_of(page_);
  constexpr uint64_t kLarge = 12 << 20, kSmall = 4 << 10, kSegment = 2 << 20;
  EXPECT_EQ(page["allocations"].size(), 6u);
  for (const Json& one : page["allocations"]) EXPECT_FALSE(one["end"].is_null());
  EXPECT_EQ(page["peak"]["bytes"], kLarge + kSmall);
  EXPECT_EQ(page["pool"]["allocations"], 6);
  EXPECT_EQ(page["pool"]["most_in_use"], kLarge + kSmall);
  EXPECT_EQ(page["pool"]["reserved"], kLarge + kSegment);
  EXPECT_EQ(page["pool"]["gaps"]["bytes"], kSegment - kSmall);
}

// Reads that follow each other are noted as one, through several allocations.
TEST_F(ActivityRun, AllMemoryThatALaunchReadsIsUsed) {
  ASSAY_NEEDS_PROGRAM("activity");
  const Ended ended = run_program({"--threads=1"}, "host");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const Json page = data_of(page_);
  int pages = 0;
  for (const Json& one : page["allocations"]) {
    if (!one["host"].get<bool>()) continue;
    ++pages;
    EXPECT_GT(one["last_use"], 0) << one;
  }
  EXPECT_EQ(pages, 6);
}

// What it held is known up to the last moment.
TEST_F(ActivityRun, AProgramThatIsKilledLosesNoEvent) {
  ASSAY_NEEDS_PROGRAM("activity");
  const Ended ended = run_program({}, "dies");
  EXPECT_EQ(ended.signal, SIGKILL);
  expect_all(data_of(page_), false);
}

// Without the command, and into a pipe: no file to share memory with, so lines.
TEST_F(ActivityRun, APipeGetsLines) {
  ASSAY_NEEDS_PROGRAM("activity");
  const std::string lines = folder_.file("lines");
  const Ended ended = run({"/bin/sh", "-c", kPrograms + "activity | cat > " + lines},
                          {{"ASSAY_REPORT", "/dev/stdout"}, {"ASSAY_ACTIVITY", "1"}, {"ASSAY_CHECK", "all"}});
  ASSERT_EQ(ended.exit, 0) << ended.err;
  std::map<std::string, int> count;
  for (const std::string& line : test::lines(read_file(lines)))
    if (const Json event = Json::parse(line, nullptr, false); event.is_object()) ++count[event["event"]];
  EXPECT_EQ(count["allocation"], 5);
  EXPECT_EQ(count["release"], 5);
  EXPECT_EQ(count["operation"], 19);
  EXPECT_EQ(count["launch"], 16);
}

}  // namespace
}  // namespace assay::cudart::test
