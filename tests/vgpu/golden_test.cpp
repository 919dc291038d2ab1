// Every form of tests/golden through the whole engine (parser, decoder, handlers), against what an H200
// computed: bit for bit.
#include "golden/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "folders.h"
#include "forms.h"

namespace assay::vgpu {
namespace {

using golden::Record;
using testing::column;
using testing::entry;
using testing::Forms;

std::vector<Record> family(const std::string& name) {
  return golden::read(std::string(kSourceFolder) + "/tests/golden/vectors/" + name + ".gold.zst");
}

std::string check_stream(Forms& forms, size_t index, const Record& record) {
  const uint64_t seed = golden::name_seed(record.form);
  std::vector<std::vector<std::byte>> operands;
  for (size_t j = 0; j + 1 < record.kinds.size(); ++j) {
    std::vector<uint64_t> values(record.stream);
    for (uint64_t i = 0; i < record.stream; ++i) values[i] = golden::stream_operand(record, seed, i, j);
    operands.push_back(column(values, golden::width(record.kinds[j + 1])));
  }
  const int bits = golden::width(record.kinds[0]);
  std::vector<std::byte> result(record.stream * static_cast<size_t>(bits / 8));
  const auto blocks = static_cast<uint32_t>((record.stream + 255) / 256);
  const std::string fault = forms.run(index, operands, record.stream, {blocks}, {256}, result);
  if (!fault.empty()) return fault;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < record.stream; ++i) sum += golden::digest(i, entry(result, i, bits));
  return sum == record.hash ? "" : "the hash of the stream differs";
}

// Every form agrees, except that `refused` of them may be refused because the hardware departs from the
// manual.
void check_family(const std::string& name, size_t at_least, size_t refused = 0) {
  const std::vector<Record> records = family(name);
  ASSERT_GE(records.size(), at_least) << "vectors are missing";
  Forms forms(records, testing::elementwise_kernel);
  size_t refusals = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    std::string wrong = testing::check_stored(forms, i, records[i]);
    if (wrong.find("departs from the manual") != std::string::npos) {
      ++refusals;
      continue;
    }
    if (wrong.empty()) wrong = check_stream(forms, i, records[i]);
    if (!wrong.empty()) ADD_FAILURE() << records[i].form << " " << wrong;
  }
  EXPECT_LE(refusals, refused);
}

TEST(GoldenThroughTheEngine, F32) {
  check_family("f32", 234);
}
TEST(GoldenThroughTheEngine, F64) {
  check_family("f64", 56);
}
TEST(GoldenThroughTheEngine, Half) {
  check_family("half", 264);
}
TEST(GoldenThroughTheEngine, Convert) {
  check_family("cvt", 784);
}
TEST(GoldenThroughTheEngine, Integer) {
  check_family("integer", 262);
}
TEST(GoldenThroughTheEngine, Video) {
  check_family("video", 1056, 16);
}
TEST(GoldenThroughTheEngine, Atomic) {
  check_family("atomic", 108);
}
TEST(GoldenThroughTheEngine, Warp) {
  check_family("warp", 23);
}

std::string check_product(Forms& forms, size_t index, const Record& record) {
  const auto bits = [&](size_t j) { return record.kinds[j] == "f64" ? 64 : 32; };
  std::vector<std::vector<std::byte>> operands;
  for (size_t j = 0; j < 3; ++j) operands.push_back(column(record.operands[j], bits(j + 1)));
  std::vector<std::byte> result(record.results.size() * static_cast<size_t>(bits(0) / 8));
  const std::string fault =
      forms.run(index, operands, record.count, {static_cast<uint32_t>(record.count)}, {32}, result);
  if (!fault.empty()) return fault;
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < record.results.size(); ++i) {
    const uint64_t ours = entry(result, i, bits(0));
    if (ours == record.results[i]) continue;
    const size_t registers = static_cast<size_t>(record.registers[0]);
    if (wrong++ == 0) {
      first = fmt::format("case {}, lane {}, register {}: GPU {:x}, ours {:x}", i / (32 * registers),
                          i / registers % 32, i % registers, record.results[i], ours);
    }
  }
  return wrong == 0 ? "" : fmt::format("{}; {} of {} wrong", first, wrong, record.results.size());
}

TEST(GoldenThroughTheEngine, Mma) {
  const std::vector<Record> records = family("mma");
  ASSERT_GE(records.size(), 106u) << "vectors are missing";
  Forms forms(records, testing::mma_kernel);
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string wrong = check_product(forms, i, records[i]);
    if (!wrong.empty()) ADD_FAILURE() << records[i].form << " " << wrong;
  }
}

}  // namespace
}  // namespace assay::vgpu
