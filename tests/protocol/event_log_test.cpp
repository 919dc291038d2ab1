// The log as its reader sees it: whole, cut off anywhere, and filled with what no writer would write.
#include "protocol/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

namespace assay::protocol {
namespace {

using testing::ElementsAre;

// Writes a log as a process does (cudart/event_log.cpp).
class Log {
 public:
  explicit Log(uint64_t writer = 7) : writer_(writer) {}
  std::string chunk(uint64_t more_zeros = 24) const {
    const ChunkHeader header{.bytes = sizeof header + records_.size() + more_zeros, .writer = writer_};
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + records_ +
           std::string(more_zeros, '\0');
  }
  Log& raw(RecordType type, std::string_view payload, TextId text = 0) {
    const RecordHeader header{static_cast<uint32_t>(type), static_cast<uint32_t>(payload.size()) & 0xffffff,
                              text};
    records_.append(reinterpret_cast<const char*>(&header), sizeof header).append(payload);
    records_.resize((records_.size() + 7) / 8 * 8);
    return *this;
  }
  template <class Record>
  Log& add(const Record& record) {
    return raw(Record::kType, {reinterpret_cast<const char*>(&record), sizeof record});
  }
  Log& text(TextId number, std::string_view text) { return raw(RecordType::Text, text, number); }

 private:
  uint64_t writer_;
  std::string records_;
};

AllocationRecord allocation(uint64_t id, TextId label = 0) {
  return {.id = id, .address = 4096, .bytes = 64, .stack = 2, .seconds = 0.5, .label = label, .is_host = 0};
}

std::vector<Event> read(const std::string& log) {
  std::vector<Event> events;
  LogReader reader(log);
  while (const Event* event = reader.next()) events.push_back(*event);
  return events;
}

// The numbers of the allocations of a log.
std::vector<uint64_t> ids(const std::string& log) {
  std::vector<uint64_t> all;
  for (const Event& event : read(log))
    if (const auto* one = std::get_if<AllocationEvent>(&event)) all.push_back(one->id);
  return all;
}

TEST(EventLog, RecordsAreTheEventsThatTheyStandFor) {
  Log log;
  log.text(1, "_Z3addPf").text(2, "add.cu").text(3, "cudaMalloc").text(4, "trap");
  log.add(allocation(9, 3));
  log.add(OperationRecord{.id = 5,
                          .stream = 2,
                          .called = 0.1,
                          .returned = 0.2,
                          .begin = 0.3,
                          .end = 0.4,
                          .bytes = 48,
                          .warp_instructions = 77,
                          .grid = {4, 2, 1},
                          .block = {128, 1, 1},
                          .kernel = 1,
                          .fault = 4,
                          .kind = 0,
                          .is_graph = 1,
                          .from_host = 0,
                          .to_host = 0});
  log.add(ReleaseRecord{.id = 9,
                        .seconds = 0.6,
                        .called = 0.55,
                        .never_written = 8,
                        .never_read = 16,
                        .last_use = 0.45,
                        .writer = 1,
                        .file = 2,
                        .line = 6,
                        .is_held = 0,
                        .is_counted = 1,
                        .unused = {}});
  log.add(LaunchRecord{.id = 3,
                       .stream = 2,
                       .dynamic_shared = 48,
                       .warp_instructions = 77,
                       .seconds = 0.1,
                       .grid = {4, 2, 1},
                       .block = {128, 1, 1},
                       .kernel = 1,
                       .fault = 4,
                       .file = 2,
                       .function = 3,
                       .line = 6});
  const std::vector<Event> events = read(log.chunk());
  // As lines of JSON they are the same events.
  std::vector<std::string> lines;
  for (const Event& event : events) lines.push_back(encode(event));
  EXPECT_THAT(
      lines,
      ElementsAre(
          R"({"event":"allocation","id":9,"address":4096,"bytes":64,"label":"cudaMalloc","host":false,"stack":2,"seconds":0.5})",
          R"({"event":"operation","id":5,"stream":2,"kind":"kernel","called":0.1,"returned":0.2,"begin":0.3,"end":0.4,"graph":true,"kernel":"_Z3addPf","grid":[4,2,1],"block":[128,1,1],"shared_bytes":48,"warp_instructions":77,"fault":"trap"})",
          R"({"event":"release","id":9,"seconds":0.6,"called":0.55,"held":false,"counted":true,"never_written":8,"never_read":16,"last_use":0.45,"writer":"_Z3addPf","file":"add.cu","line":6})",
          R"({"event":"launch","id":3,"kernel":"_Z3addPf","grid":[4,2,1],"block":[128,1,1],"stream":2,"dynamic_shared":48,"warp_instructions":77,"seconds":0.1,"fault":"trap","file":"add.cu","line":6,"function":"cudaMalloc"})"));
}

TEST(EventLog, LinesAndChunksOfSeveralProcessesFollowEachOther) {
  Log first(1), second(2);
  first.text(1, "a").add(allocation(1, 1)).raw(RecordType::Line, encode(UnsupportedEvent{"x"}));
  second.text(1, "b").add(allocation(2, 1));
  const std::string line = encode(UnsupportedEvent{"cudaLogs"}) + "\n";
  Log first_again(1);
  first_again.add(allocation(3, 1));
  const std::vector<Event> events = read(line + first.chunk() + second.chunk(100) + line +
                                         first_again.chunk() + std::string(50, '\0') + line);
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(std::get<UnsupportedEvent>(events[0]).what, "cudaLogs");
  EXPECT_EQ(std::get<AllocationEvent>(events[1]).label, "a");
  EXPECT_EQ(std::get<UnsupportedEvent>(events[2]).what, "x");
  EXPECT_EQ(std::get<AllocationEvent>(events[3]).label, "b");
  EXPECT_EQ(std::get<AllocationEvent>(events[5]).label, "a") << "texts are those of the process";
  EXPECT_EQ(std::get<UnsupportedEvent>(events[6]).what, "cudaLogs");
}

// Two processes of one program give the same numbers.
TEST(EventLog, NumbersOfProcessesAreKeptApart) {
  Log first(1), second(2);
  for (Log* log : {&first, &second}) {
    log->raw(RecordType::Line, encode(StackEvent{2, {"program+0x10"}, {}}));
    log->add(allocation(1)).add(ReleaseRecord{.id = 1}).add(OperationRecord{.id = 1});
  }
  const std::vector<Event> events = read(first.chunk() + second.chunk());
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(std::get<AllocationEvent>(events[1]).id, 1u);
  const auto& other = std::get<AllocationEvent>(events[5]);
  EXPECT_NE(other.id, 1u);
  EXPECT_NE(other.stack, 2u);
  EXPECT_EQ(std::get<StackEvent>(events[4]).id, other.stack);
  EXPECT_EQ(std::get<ReleaseEvent>(events[6]).id, other.id);
  EXPECT_NE(std::get<OperationEvent>(events[7]).id, std::get<OperationEvent>(events[3]).id);
}

TEST(EventLog, WhatCannotBeReadIsLeftOut) {
  Log log;
  AllocationRecord infinite = allocation(2), host = allocation(3), text = allocation(4);
  infinite.seconds = std::numeric_limits<double>::infinity();
  host.is_host = 5;
  text.label = 1;  // there is none yet
  OperationRecord kind{};
  kind.kind = 9;
  ReleaseRecord line{};
  line.line = -1;
  log.add(infinite).add(host).add(text).add(kind).add(line).add(allocation(1));
  log.raw(RecordType::Allocation, "too short")
      .raw(static_cast<RecordType>(99), "unknown")
      .text(7, "not the next");
  log.add(allocation(5));
  EXPECT_THAT(ids(log.chunk()), ElementsAre(1, 5));
  EXPECT_EQ(read(log.chunk()).size(), 2u);
}

TEST(EventLog, BytesThatAreNoTextAreReplaced) {
  Log log;
  log.text(1, "k\xff\x01").add(allocation(1, 1));
  const std::vector<Event> events = read(log.chunk());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<AllocationEvent>(events[0]).label, "k\xef\xbf\xbd\x01");
}

TEST(EventLog, ALogMayBeCutAnywhere) {
  Log log;
  log.text(1, "a")
      .add(allocation(1, 1))
      .add(allocation(2, 1))
      .raw(RecordType::Line, encode(UnsupportedEvent{"x"}));
  const std::string whole = log.chunk() + encode(UnsupportedEvent{"y"}) + "\n";
  std::size_t most = 0;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::size_t count = read(whole.substr(0, length)).size();
    EXPECT_GE(count, most) << "a longer log says no less";
    most = std::max(most, count);
  }
  EXPECT_EQ(most, 4u);
}

TEST(EventLog, AnyBytesAreRead) {
  std::mt19937 random(5);
  Log log;
  log.text(1, "a")
      .add(allocation(1, 1))
      .add(OperationRecord{})
      .raw(RecordType::Line, encode(UnsupportedEvent{"x"}));
  const std::string whole = log.chunk() + encode(UnsupportedEvent{"y"}) + "\n";
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = whole;
    for (auto n = 1 + random() % 6; n > 0; --n)
      changed[random() % changed.size()] = static_cast<char>(random());
    read(changed);  // ends, and no sanitizer complains
  }
}

}  // namespace
}  // namespace assay::protocol
