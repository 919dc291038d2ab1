#include "protocol/event.h"

#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "finding/json.h"
#include "support.h"

namespace assay::protocol {
namespace {

using ::testing::HasSubstr;

Finding race() {
  evidence::Race race;
  race.code.kernel = "_Z1kPf";
  race.code.block = {1, 2, 3};
  race.place.allocation = evidence::Allocation{.label = "x", .bytes = 64, .id = 7};
  race.place.offset = 12;
  race.relation = evidence::Relation::Blocks;
  race.other.where = {"k.cu", 4};
  return {.kind = Kind::DataRace, .where = {"k.cu", 3}, .evidence = race, .count = 5};
}

std::vector<Event> one_of_each() {
  Profile profile;
  profile.lines.push_back({.where = {"k.cu", 9}, .operation = "add.f32", .share = 0.5});
  return {
      LaunchEvent{1, "_Z1kPf", {2, 3, 4}, {5, 6, 7}, 8, 9, 10, 0.5, "trap", {{"a.py", 7}, "forward"}},
      FaultEvent{"illegal address", "kernel `k`: line\nbreak"},
      FindingEvent{race()},
      EarlyFindingEvent{race()},
      FindingsReportedEvent{},
      StillRunningEvent{"_Z1kPf", 2.5, {{{"k.cu", 3}, 12}}},
      ModuleEvent{"program", "bin/program"},
      ProfileEvent{profile},
      UnsupportedEvent{"cudaImportExternalMemory"},
      CodeEvent{".version 8.0\n.target sm_80"},
      RecordedLaunchEvent{
          "_Z1kPf", {2, 3, 4}, {5, 6, 7}, {2, 1, 1}, true, 8, 9, 10, {11, 12, 13}, {{0, {"x", 4, false}}}},
      RecordedFillEvent{{"x", 4, false}, 8, 2},
      RecordedCopyEvent{{"", 0, true}, {"x", 4, false}, 8, 2},
      CallEvent{},
      StackEvent{3, {"program+0x12"}, {{{"a.py", 7}, "forward", true}}},
      AllocationEvent{4, 0x7000, 64, "cudaMalloc", true, 3, 0.5},
      ReleaseEvent{4, 0.75, 0.5, true, true, 8, 16, 0.625, "_Z1kPf", {"k.cu", 9}},
      OutOfMemoryEvent{1 << 20, 64, 3, 0.5},
      OperationEvent{
          .id = 5, .kind = OperationKind::Copy, .begin = 0.25, .end = 0.5, .bytes = 64, .to_host = true}};
}

TEST(Events, SurviveTheTrip) {
  ASSERT_EQ(one_of_each().size(), std::variant_size_v<Event>);
  for (std::size_t i = 0; i < one_of_each().size(); ++i) {
    const std::string line = encode(one_of_each()[i]);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto event = decode_event(line);
    ASSERT_TRUE(event) << event.error().text() << "\n" << line;
    EXPECT_EQ(event->index(), i);
    EXPECT_EQ(encode(*event), line);
  }
}

// Allocations, releases and operations are read by a reader that knows one form only; any other JSON of the same fields says the same.
TEST(Events, AnotherFormOfTheSameFieldsReadsTheSame) {
  OperationEvent kernel{
      .id = 6, .stream = 2, .begin = 0.25, .end = 1e-9, .kernel = "_Z1kPf", .grid = {7, 8, 9}};
  kernel.fault = "line\nbreak, \"quoted\", \xc3\xa9";  // takes the long way
  for (const Event& event :
       {Event(kernel), Event(AllocationEvent{4, 0x7000, 64, "cudaMalloc", true, 3, 0.5}),
        Event(ReleaseEvent{4, 0.75, 0.5, true, true, 8, 16, 0.625, "_Z1kPf", {"k.cu", 9}})}) {
    const std::string line = encode(event);
    auto json = nlohmann::ordered_json::parse(line);
    nlohmann::ordered_json reversed;
    for (auto field = json.end(); field != json.begin();) {
      --field;
      reversed[field.key()] = field.value();
    }
    for (const std::string& other : {line, json.dump(1, ' '), reversed.dump()}) {
      const auto read = decode_event(other);
      ASSERT_TRUE(read) << read.error().text() << "\n" << other;
      EXPECT_EQ(encode(*read), line);
    }
  }
}

TEST(Events, WhatIsMissingOrTooMuchInAQuickLineIsRefused) {
  const std::string line = encode(AllocationEvent{4, 0x7000, 64, "cudaMalloc", true, 3, 0.5});
  ASSERT_TRUE(decode_event(line));
  EXPECT_FALSE(decode_event(line + "}"));
  EXPECT_FALSE(decode_event(line.substr(0, line.size() - 1)));
  for (const auto& [right, wrong] : {std::pair{"\"bytes\":64", "\"bytes\":-64"},
                                     {"\"bytes\":64", "\"bytes\":64.5"},
                                     {"\"bytes\":64,", ""},
                                     {"\"host\":true", "\"host\":1"},
                                     {"\"seconds\":0.5", "\"seconds\":inf"},
                                     {"\"seconds\":0.5", "\"seconds\":1e999"}}) {
    std::string changed = line;
    ASSERT_NE(changed.find(right), std::string::npos) << right;
    EXPECT_FALSE(decode_event(changed.replace(changed.find(right), std::strlen(right), wrong))) << changed;
  }
}

TEST(Events, AFindingKeepsItsEvidence) {
  const auto event = decode_event(encode(EarlyFindingEvent{race()}));
  ASSERT_TRUE(event);
  const Finding* finding = finding_of(*event);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(to_json(*finding), to_json(race()));
  EXPECT_EQ(finding_of(Event(ModuleEvent{})), nullptr);
}

TEST(Events, ConclusionsOfTheJudgeAreRefused) {
  for (const KindInfo& kind : kinds()) {
    Finding finding;
    finding.kind = kind.kind;
    const auto event = decode_event(encode(FindingEvent{finding}));
    EXPECT_EQ(static_cast<bool>(event), kind.reporter == Reporter::Device) << kind.name;
  }
}

TEST(Events, WhatIsNoEventIsRefused) {
  for (const char* line :
       {"", "no event", "[]", "{}", R"({"event": "unknown"})", R"({"event": 3})",
        R"({"event": "module", "name": "n"})", R"({"event": "module", "name": 1, "path": "p"})",
        R"({"event": "finding", "finding": {"kind": "data-race", "evidence": []}})",
        R"({"event": "launch", "id": 1})"})
    EXPECT_FALSE(decode_event(line)) << line;
  EXPECT_FALSE(decode_event(encode(ModuleEvent{"n", std::string(100000, 'p')})));
  EXPECT_FALSE(decode_event(encode(StillRunningEvent{"k", 1, std::vector<StillRunningEvent::Line>(1000)})));
}

TEST(Events, DamagedOnesNeverCrash) {
  std::mt19937 random(3);
  const std::vector<Event> events = one_of_each();
  for (int i = 0; i < 20000; ++i) {
    const auto event =
        decode_event(mutated(encode(events[static_cast<std::size_t>(i) % events.size()]), random));
    if (!event) continue;
    const auto again = decode_event(encode(*event));
    ASSERT_TRUE(again) << again.error().text() << "\n" << encode(*event);
    ASSERT_EQ(encode(*again), encode(*event));
  }
}

}  // namespace
}  // namespace assay::protocol
