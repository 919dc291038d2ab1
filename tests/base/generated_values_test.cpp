#include "base/generated_values.h"

#include <gtest/gtest.h>

#include <set>

namespace assay {
namespace {

GeneratedValues numbers(uint32_t count) {
  GeneratedValues values{.table = std::vector<std::byte>(4 * count), .item = 4, .seed = 5};
  for (uint32_t i = 0; i < count; ++i) std::memcpy(values.table.data() + 4 * i, &i, 4);
  return values;
}

TEST(GeneratedValues, AreTheSameWhoeverMakesThem) {
  const GeneratedValues values = numbers(4099);
  std::vector<std::byte> all(4 * 5000);
  const uint64_t first = (uint64_t{1} << 32) - 77;
  make_values(values, first, 5000, all.data());
  for (const uint64_t from : {0, 1, 2, 3, 4, 5, 4095, 19998})
    for (const uint64_t length : {1, 2, 3, 4, 7, 64, 1001}) {
      if (from + length > all.size()) continue;
      std::vector<std::byte> part(length);
      make_bytes(values, 4 * first + from, length, part.data());
      EXPECT_EQ(std::memcmp(part.data(), all.data() + from, length), 0) << from << " " << length;
    }
}

TEST(GeneratedValues, AreThoseOfTheTableAndInNoStep) {
  std::set<uint32_t> seen;
  for (uint64_t i = 0; i < 4096; ++i) {
    uint32_t value = 0;
    make_values(numbers(256), i << 20, 1, reinterpret_cast<std::byte*>(&value));  // a kernel's stride
    ASSERT_LT(value, 256u);
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 250u);
}

TEST(GeneratedValues, OffsetsRiseToTheirEnd) {
  const GeneratedValues offsets{.item = 8, .last_value = int64_t{1} << 33, .last_index = int64_t{1} << 32};
  int64_t before = -1;
  for (const uint64_t i :
       {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, (uint64_t{1} << 32) - 1, uint64_t{1} << 32}) {
    int64_t value = 0;
    make_values(offsets, i, 1, reinterpret_cast<std::byte*>(&value));
    EXPECT_GT(value, before);
    before = value;
  }
  EXPECT_EQ(before, int64_t{1} << 33);
}

}  // namespace
}  // namespace assay
