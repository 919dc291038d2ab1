#include "monitor/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "monitor/gap.h"
#include "monitor/settings.h"

namespace assay::monitor {
namespace {

TEST(Ring, PassesSamplesInOrderAndIsFullWhenNobodyReads) {
  auto made = Ring::make(1 << 20, "{\"a\": 1}");
  ASSERT_TRUE(made);
  auto attached = Ring::attach(dup(made->file()));
  ASSERT_TRUE(attached) << attached.error().text();
  EXPECT_EQ(attached->description(), "{\"a\": 1}");
  EXPECT_FALSE(attached->begin_judge());
  uint32_t filled = 0;
  for (auto slot = made->begin_fill(); slot; slot = made->begin_fill(), ++filled) {
    std::memset(made->slot(*slot), static_cast<int>(filled), 100);
    made->end_fill(*slot, 100, 0);
  }
  EXPECT_EQ(filled, made->slots());
  for (uint32_t i = 0; i < filled; ++i) {
    const auto read = attached->begin_judge();
    ASSERT_TRUE(read);
    EXPECT_EQ(read->bytes.size(), 100u);
    EXPECT_EQ(static_cast<uint32_t>(read->bytes[99]), i);  // the oldest first
    attached->end_judge(read->index);
  }
  EXPECT_TRUE(made->is_empty());
  EXPECT_TRUE(made->begin_fill());
}

TEST(Ring, WhatADeadReaderHadIsReadAgain) {
  auto made = Ring::make(4096, "");
  ASSERT_TRUE(made);
  made->end_fill(*made->begin_fill(), 10, 0);
  {
    auto reader = Ring::attach(dup(made->file()));
    ASSERT_TRUE(reader->begin_judge());  // and is killed
  }
  EXPECT_FALSE(made->is_empty());
  auto next = Ring::attach(dup(made->file()));
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->begin_judge());
}

TEST(Ring, RefusesWhatIsNone) {
  const int file = memfd_create("other", MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(file, 1 << 22), 0);
  EXPECT_FALSE(Ring::attach(dup(file)));  // it could shrink
  fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
  EXPECT_FALSE(Ring::attach(dup(file)));
  close(file);
  auto made = Ring::make(4096, "");
  auto* words =
      static_cast<uint32_t*>(mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED, made->file(), 0));
  words[2] = 9;
  const auto other = Ring::attach(dup(made->file()));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("version 9"), std::string::npos) << other.error().text();
  words[2] = kRingVersion;
  words[3] = 1 << 20;  // slots
  EXPECT_FALSE(Ring::attach(dup(made->file())));
}

TEST(Gap, IsGeometric) {
  Random random(3);
  constexpr int kDraws = 200'000;
  double sum = 0, next = 0;
  for (int i = 0; i < kDraws; ++i) {
    const int64_t drawn = gap(random.uniform(), 100);
    ASSERT_GE(drawn, 1);
    sum += static_cast<double>(drawn);
    next += drawn == 1;
  }
  EXPECT_NEAR(sum / kDraws, 100, 5 * 100 / std::sqrt(kDraws));
  EXPECT_NEAR(next / kDraws, 0.01, 5 * std::sqrt(0.01 / kDraws));  // every call with the same probability
  EXPECT_EQ(gap(0.99, 1), 1);
}

contract::Contract with(const std::string& monitor) {
  auto contract = contract::parse(
      "[kernel]\nsource = \"a.cu\"\nentry = \"f\"\nargs = [\"x\", \"y\"]\n[tensors.x]\ndtype = "
      "\"f32\"\nshape = [4]\n"
      "[tensors.y]\ndtype = \"f32\"\nshape = [4]\nrole = \"out\"\n[reference]\nformula = \"y[i] = x[i]\"\n" +
          monitor,
      "f.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  return *contract;
}

TEST(Settings, AreReadFromTheContract) {
  const auto plain = settings_of(with(""));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->every, 1000);
  EXPECT_EQ(plain->max_bytes, 64 << 20);
  const auto all =
      settings_of(with("[monitor]\nevery = 10\nelements = 32\nmax_bytes = \"2KiB\"\narl = 1e6\n"
                       "on_alarm = \"reference\"\ntrusted = { source = \"b.cu\", entry = \"g\" }\n"));
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_EQ(all->max_bytes, 2048);
  EXPECT_EQ(all->on_alarm, OnAlarm::Reference);
  EXPECT_EQ(all->trusted_entry, "g");
  for (const char* wrong : {"every = 0", "max_bytes = \"much\"", "on_alarm = \"panic\"",
                            "on_alarm = \"reference\"", "arl = 0", "trusted = { source = \"b.cu\" }"}) {
    const auto refused = settings_of(with(std::string("[monitor]\n") + wrong + "\n"));
    ASSERT_FALSE(refused) << wrong;
    EXPECT_GT(refused.error().line, 0) << wrong;
  }
}

}  // namespace
}  // namespace assay::monitor
