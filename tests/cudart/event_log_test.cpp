// The log as a program writes it, read back.
#include "cudart/event_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/temporary_folder.h"
#include "support.h"

namespace assay::cudart {
namespace {

using protocol::AllocationRecord;

class EventLogTest : public testing::Test {
 protected:
  int open_file() const { return open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600); }
  std::vector<protocol::Event> events() const {
    const std::string log = test::read_file(path_);
    std::vector<protocol::Event> all;
    protocol::LogReader reader(log);
    while (const protocol::Event* event = reader.next()) all.push_back(*event);
    return all;
  }
  static AllocationRecord allocation(uint64_t id, protocol::TextId label) {
    return {.id = id, .address = 0, .bytes = 8, .stack = 0, .seconds = 0, .label = label, .is_host = 0};
  }

  const TemporaryFolder folder_{"log"};
  const std::string path_ = folder_.file("events");
};

TEST_F(EventLogTest, EventsOfManyThreadsComeBackWhole) {
  constexpr uint64_t kEach = 20'000;  // together several chunks
  EventLog log;
  ASSERT_TRUE(log.open(open_file()));
  std::vector<std::thread> threads;
  for (uint64_t part = 0; part < 3; ++part)
    threads.emplace_back([&, part] {
      for (uint64_t i = 0; i < kEach; ++i)
        EXPECT_TRUE(log.add(allocation(part * kEach + i, log.text("t" + std::to_string(i % 50)))));
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> seen(3 * kEach);
  for (const protocol::Event& event : events()) {
    const auto& one = std::get<protocol::AllocationEvent>(event);
    ASSERT_LT(one.id, seen.size());
    EXPECT_EQ(one.label, "t" + std::to_string(one.id % kEach % 50));
    EXPECT_FALSE(seen[one.id]);
    seen[one.id] = true;
  }
  EXPECT_EQ(std::ranges::count(seen, true), static_cast<std::ptrdiff_t>(seen.size()));
}

// A line may be longer than a chunk, and another process may append lines of its own.
TEST_F(EventLogTest, LongLinesAndOtherWriters) {
  EventLog log;
  ASSERT_TRUE(log.open(open_file()));
  EXPECT_TRUE(log.add_line(protocol::encode(protocol::UnsupportedEvent{"first"})));
  const std::string line = protocol::encode(protocol::UnsupportedEvent{"other"}) + "\n";
  const int other = open_file();
  EXPECT_EQ(write(other, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_TRUE(log.add_line(protocol::encode(protocol::CodeEvent{std::string(3'000'000, 'x')})));
  EXPECT_TRUE(log.add(allocation(1, 0)));
  const auto all = events();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(std::get<protocol::UnsupportedEvent>(all[0]).what, "first");
  EXPECT_EQ(std::get<protocol::UnsupportedEvent>(all[1]).what, "other");
  EXPECT_EQ(std::get<protocol::CodeEvent>(all[2]).ptx.size(), 3'000'000u);
  EXPECT_EQ(std::get<protocol::AllocationEvent>(all[3]).id, 1u);
}

TEST_F(EventLogTest, WhatAKilledProcessWroteIsThere) {
  const pid_t child = fork();
  if (child == 0) {
    EventLog log;
    if (!log.open(open_file())) _exit(1);
    for (uint64_t i = 0; i < 10'000; ++i) log.add(allocation(i, log.text("x")));
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(events().size(), 10'000u);
}

// The mapping is the parent's.
TEST_F(EventLogTest, AForkedProcessWritesNothingIntoIt) {
  EventLog log;
  ASSERT_TRUE(log.open(open_file()));
  EXPECT_TRUE(log.add(allocation(1, 0)));
  const pid_t child = fork();
  if (child == 0) _exit(log.is_open() || log.add(allocation(2, 0)) ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(log.add(allocation(3, 0)));
  EXPECT_EQ(events().size(), 2u);
}

TEST_F(EventLogTest, AFileWithoutRoomIsSaidAndEndsNothing) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{300'000, 300'000};  // one chunk, and not a second one
    setrlimit(RLIMIT_FSIZE, &most);
    EventLog log;
    if (!log.open(open_file())) _exit(1);
    uint64_t added = 0;
    while (added < 100'000 && log.add(allocation(added, 0))) ++added;
    _exit(added > 1000 && added < 100'000 && !log.add(allocation(0, 0)) ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_GT(events().size(), 1000u);
}

TEST_F(EventLogTest, APipeHasNoLog) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EventLog log;
  EXPECT_FALSE(log.open(ends[1]));
  EXPECT_FALSE(log.is_open());
  EXPECT_EQ(log.text("a"), 1u);
  EXPECT_EQ(log.texts().at(0), "a");
}

}  // namespace
}  // namespace assay::cudart
