// From events to an activity: who holds what, the peak, and the files. What viewers make of the files is tested in
// tests/python/test_activity.py.
#include "activity/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace assay::activity {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string text_from(const std::function<void(const Sink&)>& write) {
  std::string text;
  write([&](std::string_view piece) { text += piece; });
  return text;
}
std::string trace_of(const Activity& activity) {
  return text_from([&](const Sink& sink) { trace(activity, sink); });
}
std::string page_of(const Activity& activity, const std::string& program) {
  return text_from([&](const Sink& sink) { page(activity, program, sink); });
}

// Two live at once; the second is held until the end.
Recorder example() {
  Recorder recorder;
  recorder.add(protocol::StackEvent{7, {"program+0x10"}, {}});
  recorder.add(protocol::AllocationEvent{1, 0x1000, 100, "cudaMalloc", false, 7, 1.0});
  recorder.add(protocol::AllocationEvent{2, 0x2000, 300, "cudaMalloc", false, 7, 2.0});
  recorder.add(protocol::OperationEvent{.id = 1,
                                        .stream = 3,
                                        .called = 2.25,
                                        .returned = 2.5,
                                        .begin = 2.75,
                                        .end = 3.0,
                                        .kernel = "_Z5twicePfi",
                                        .grid = {4, 1, 1},
                                        .block = {128, 1, 1},
                                        .warp_instructions = 64});
  recorder.add(
      protocol::FindingEvent{{.kind = Kind::DataRace, .where = {"k.cu", 3}, .evidence = evidence::Race{}}});
  recorder.add(protocol::ReleaseEvent{.id = 1,
                                      .seconds = 4.0,
                                      .called = 4.0,
                                      .is_counted = true,
                                      .never_read = 40,
                                      .last_use = 3.0,
                                      .writer = "_Z5twicePfi"});
  recorder.add(protocol::AllocationEvent{3, 0x3000, 50, "cudaMalloc", false, 0, 5.0});
  recorder.add(protocol::ReleaseEvent{.id = 2, .seconds = 6.0, .called = 6.0, .is_held = true});
  return recorder;
}

TEST(Activity, LivesOfAllocations) {
  const Activity seen = example().take([](const std::vector<std::string>& calls) {
    return std::vector<Frame>{{{"main.cu", 12}, calls.at(0), true}};
  });
  ASSERT_EQ(seen.allocations.size(), 3u);
  EXPECT_TRUE(seen.allocations[0].is_released);
  EXPECT_EQ(seen.allocations[0].end, 4.0);
  EXPECT_EQ(seen.allocations[0].writer, "twice");
  EXPECT_EQ(seen.allocations[0].never_read, 40u);
  EXPECT_FALSE(seen.allocations[1].is_released);
  EXPECT_FALSE(seen.allocations[2].is_released) << "the program was killed: nobody said that it was held";
  ASSERT_EQ(seen.stack_of(seen.allocations[0]).size(), 1u);
  EXPECT_EQ(text_of(seen.stack_of(seen.allocations[0])[0]), "main.cu:12 in program+0x10");
  EXPECT_THAT(seen.stack_of(seen.allocations[2]), IsEmpty());
  EXPECT_EQ(seen.findings.at(0).seconds, 3.0) << "at the end of the operation that showed it";
  EXPECT_EQ(seen.end, 6.0);
}

TEST(Activity, PeakAndWhoMakesIt) {
  const Peak peak = peak_of(example().take());
  EXPECT_EQ(peak.bytes, 400u);
  EXPECT_EQ(peak.seconds, 2.0);
  EXPECT_THAT(peak.held, ElementsAre(1, 0));
  EXPECT_EQ(peak_of(Activity{}).bytes, 0u);
  EXPECT_THAT(peak_of(Activity{}).held, IsEmpty());
}

// Memory that is given back in the same instant makes room.
TEST(Activity, PeakOfMemoryThatFollows) {
  Recorder recorder;
  recorder.add(protocol::AllocationEvent{1, 0x1000, 100, "", false, 0, 1.0});
  recorder.add(protocol::ReleaseEvent{.id = 1, .seconds = 2.0, .called = 2.0});
  recorder.add(protocol::AllocationEvent{2, 0x2000, 100, "", false, 0, 2.0});
  recorder.add(protocol::AllocationEvent{3, 0x4000, 700, "", true, 0, 2.0});  // of the host
  EXPECT_EQ(peak_of(recorder.take()).bytes, 100u);
}

// A loop that allocates and frees in stream order needs the memory of one turn, however late the device runs the work.
TEST(Activity, MemoryThatIsFreedInStreamOrderEndsWithTheCall) {
  Recorder recorder;
  for (uint64_t i = 1; i <= 3; ++i) {
    const auto now = static_cast<double>(i);
    recorder.add(protocol::AllocationEvent{i, i << 12, 100, "cudaMallocAsync", false, 0, now});
    // The last one had not happened when the program ended.
    recorder.add(protocol::ReleaseEvent{.id = i, .seconds = 9, .called = now + .5, .is_held = i == 3});
  }
  const Activity seen = recorder.take();
  EXPECT_EQ(peak_of(seen).bytes, 100u);
  EXPECT_EQ(seen.allocations[2].end, 3.5);
  EXPECT_TRUE(seen.allocations[2].is_released);
}

TEST(Activity, ReleaseOfWhatIsNotKnownIsIgnored) {
  Recorder recorder;
  recorder.add(protocol::ReleaseEvent{.id = 9, .seconds = 2.0, .called = 2.0});
  EXPECT_THAT(recorder.take().allocations, IsEmpty());
}

TEST(Activity, TraceHasKinetosNames) {
  const auto json = nlohmann::json::parse(trace_of(example().take()));
  std::map<std::string, nlohmann::json> events;
  for (const auto& event : json["traceEvents"]) events[event.value("cat", event.value("name", ""))] = event;
  EXPECT_EQ(events["kernel"]["name"], "twice");
  EXPECT_EQ(events["kernel"]["ts"], 2.75e6);
  EXPECT_EQ(events["kernel"]["dur"], 0.25e6);
  EXPECT_EQ(events["kernel"]["tid"], 3);
  EXPECT_EQ(events["kernel"]["args"]["grid"], (std::vector<int>{4, 1, 1}));
  EXPECT_EQ(events["cuda_runtime"]["name"], "cudaLaunchKernel");
  EXPECT_EQ(events["cuda_runtime"]["args"]["correlation"], events["kernel"]["args"]["correlation"]);
  EXPECT_EQ(events["finding"]["name"], "error: data-race");
  EXPECT_EQ(events["allocated bytes"]["args"]["bytes"], 350) << "after the last change";
}

// The page's data is written as text: it is the JSON that page.js reads.
TEST(Activity, PageHoldsWhatItShows) {
  Recorder recorder = example();
  recorder.add(protocol::OperationEvent{
      .id = 2, .stream = 3, .kind = protocol::OperationKind::Copy, .begin = 7, .end = 7.5, .bytes = 12});
  const std::string text = page_of(recorder.take(), "./program");
  const std::string mark = "id=\"data\">";
  const std::size_t begin = text.find(mark) + mark.size();
  const auto data = nlohmann::json::parse(text.substr(begin, text.find("</script>", begin) - begin));
  EXPECT_EQ(data["counts"],
            (nlohmann::json{{"allocations", 3}, {"operations", 2}, {"failures", 0}, {"findings", 1}}));
  EXPECT_EQ(data["peak"]["bytes"], 400);
  const nlohmann::json released = data["allocations"][0], held = data["allocations"][1];
  EXPECT_EQ(released["end"], 4.0);
  EXPECT_EQ(released["counted"], true);
  EXPECT_EQ(released["never_read"], 40);
  EXPECT_EQ(released["writer"], "twice");
  EXPECT_TRUE(held["end"].is_null());
  EXPECT_EQ(held["host"], false);
  const nlohmann::json kernel = data["operations"][0], copy = data["operations"][1];
  EXPECT_EQ(kernel["kind"], "kernel");
  EXPECT_EQ(kernel["name"], "twice");
  EXPECT_EQ(kernel["detail"], "grid 4 x 1 x 1, block 128 x 1 x 1, 64 warp instructions");
  EXPECT_EQ(copy["kind"], "copy");
  EXPECT_EQ(copy["name"], "copy, device to device");
  EXPECT_EQ(copy["detail"], "12 bytes");
  EXPECT_EQ(copy["end"], 7.5);
}

// More than a page can draw: the largest allocations, of equal ones the first.
TEST(Activity, PageHoldsTheLargestAllocations) {
  constexpr uint64_t kSmall = 3000, kLarge = 3000, kMost = 4000;
  Recorder recorder;
  for (uint64_t i = 1; i <= kSmall + kLarge; ++i) {
    const uint64_t bytes = i % 2 == 1 ? 10 : 20 + i % 8;
    recorder.add(protocol::AllocationEvent{i, i << 12, bytes, "", false, 0, 1.0});
  }
  const std::string text = page_of(recorder.take(), "./program"), mark = "id=\"data\">";
  const auto begin = text.find(mark) + mark.size();
  const auto data = nlohmann::json::parse(text.substr(begin, text.find("</script>", begin) - begin));
  ASSERT_EQ(data["allocations"].size(), kMost);
  uint64_t last = 0, large = 0, small = 0;
  for (const auto& one : data["allocations"]) {
    EXPECT_GT(one["id"].get<uint64_t>(), last) << "in their own order";
    last = one["id"];
    const bool is_small = one["bytes"] == 10;
    ++(is_small ? small : large);
    EXPECT_TRUE(!is_small || last < 2 * (kMost - kLarge)) << "not one of the first: " << last;
  }
  EXPECT_EQ(large, kLarge);
  EXPECT_EQ(small, kMost - kLarge);
}

// Of the code that made an allocation, the page names the program's own line, not that of a package.
TEST(Activity, PageNamesTheProgramsOwnLine) {
  Recorder recorder;
  recorder.add(
      protocol::StackEvent{1,
                           {},
                           {{{"/usr/lib/python3/dist-packages/torch/functional.py", 5}, "inner", true},
                            {{"train.py", 7}, "step", true}}});
  recorder.add(protocol::AllocationEvent{1, 0x1000, 100, "cudaMalloc", false, 1, 1.0});
  EXPECT_THAT(page_of(recorder.take(), "./program"), HasSubstr("\"place\":\"train.py:7 in step\""));
}

// Where the program allocates in one function of its own, the call of that function tells allocations apart.
TEST(Activity, PageNamesTheCallerOfTheProgramsOwnLine) {
  Recorder recorder;
  recorder.add(protocol::StackEvent{1,
                                    {},
                                    {{{"helper.py", 5}, "scratch", true},
                                     {{"/usr/lib/python3/dist-packages/torch/nn.py", 7}, "run", true},
                                     {{"train.py", 9}, "main", true}}});
  recorder.add(protocol::AllocationEvent{1, 0x1000, 100, "cudaMalloc", false, 1, 1.0});
  EXPECT_THAT(page_of(recorder.take(), "./program"),
              HasSubstr("\"place\":\"helper.py:5 in scratch\",\"caller\":\"train.py:9 in main\""));
}

// A backward pass runs on threads that no Python code of the program called.
TEST(Activity, PageNamesNoLineOfAssaysOwn) {
  Recorder recorder;
  recorder.add(
      protocol::StackEvent{1, {}, {{{"/opt/python/assay/virtual/aten.py", 362}, "new_on_device", true}}});
  recorder.add(protocol::AllocationEvent{1, 0x1000, 100, "cudaMalloc", false, 1, 1.0});
  EXPECT_THAT(page_of(recorder.take(), "./program"),
              HasSubstr("\"place\":\"a thread of PyTorch, as in a backward pass\""));
}

TEST(Activity, PageHoldsAllocationsThatFailed) {
  Recorder recorder;
  recorder.add(protocol::StackEvent{1, {}, {{{"main.cu", 9}, "main", true}}});
  recorder.add(protocol::OutOfMemoryEvent{.bytes = 1 << 20, .free = 400, .stack = 1, .seconds = 2.0});
  const std::string text = page_of(recorder.take(), "./program");
  EXPECT_THAT(text, HasSubstr("\"failures\":[{\"seconds\":2"));
  EXPECT_THAT(text, HasSubstr("\"bytes\":1048576,\"free\":400,\"place\":\"main.cu:9 in main\""));
}

TEST(Activity, PageHoldsNothingThatLooksLikeATag) {
  Recorder recorder;
  recorder.add(protocol::AllocationEvent{1, 0x1000, 100, "</script><b>", false, 0, 1.0});
  const std::string text = page_of(recorder.take(), "./program --x=<y>");
  EXPECT_THAT(text, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(text, Not(HasSubstr("{{data}}")));
  EXPECT_THAT(text, HasSubstr("\\u003c/script>\\u003cb>"));
}

}  // namespace
}  // namespace assay::activity
