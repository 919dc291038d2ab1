// The functions of this room against what an H200 computed, bit for bit.
#include "golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "evaluate.h"
#include "folders.h"

namespace assay::numerics {
namespace {

std::vector<golden::Record> family(const std::string& name) {
  return golden::read(std::string(kSourceFolder) + "/tests/golden/vectors/" + name + ".gold.zst");
}

uint64_t mask(const golden::Record& record) {
  const int bits = golden::width(record.kinds[0]);
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

// "" if all agree, else the first disagreement and how many there are.
std::string compare_stored(const golden::Record& record, const Evaluate& evaluate) {
  std::string first;
  size_t wrong = 0;
  for (size_t i = 0; i < record.count; ++i) {
    uint64_t in[3] = {};
    for (size_t j = 0; j < record.operands.size(); ++j) in[j] = record.operands[j][i];
    const uint64_t ours = evaluate(in[0], in[1], in[2]) & mask(record);
    if (ours == record.results[i]) continue;
    if (wrong++ != 0) continue;
    char line[200];
    std::snprintf(line, sizeof line, "(%llx, %llx, %llx): GPU %llx, ours %llx",
                  static_cast<unsigned long long>(in[0]), static_cast<unsigned long long>(in[1]),
                  static_cast<unsigned long long>(in[2]), static_cast<unsigned long long>(record.results[i]),
                  static_cast<unsigned long long>(ours));
    first = line;
  }
  return wrong == 0
             ? ""
             : first + " and " + std::to_string(wrong - 1) + " more of " + std::to_string(record.count);
}

bool stream_agrees(const golden::Record& record, const Evaluate& evaluate) {
  const golden::Stream stream(record);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < record.stream; ++i) {
    uint64_t in[3] = {};
    for (size_t j = 0; j + 1 < record.kinds.size(); ++j) in[j] = stream.operand(i, j);
    sum += golden::digest(i, evaluate(in[0], in[1], in[2]) & mask(record));
  }
  return sum == record.hash;
}

// "" if a form agrees, or is none of ours; else what is wrong with it.
std::string verdict(const golden::Record& record, Evaluate (*find)(const FormName&),
                    std::atomic<size_t>& checked) {
  const Evaluate evaluate = find(FormName(record.form));
  if (!evaluate) return "";
  ++checked;
  const std::string stored = compare_stored(record, evaluate);
  if (!stored.empty()) return record.form + stored;
  return stream_agrees(record, evaluate) ? "" : record.form + ": the hash of the stream differs";
}

void check(const std::string& name, Evaluate (*find)(const FormName&), size_t at_least) {
  const std::vector<golden::Record> records = family(name);
  std::vector<std::string> verdicts(records.size());
  std::atomic<size_t> checked = 0;
  std::atomic<size_t> next = 0;
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    workers.emplace_back([&] {
      for (size_t at = next++; at < records.size(); at = next++)
        verdicts[at] = verdict(records[at], find, checked);
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::string& v : verdicts) EXPECT_EQ(v, "");
  EXPECT_EQ(checked, at_least) << "vectors are missing, or this number is old";
}

TEST(Golden, F32) {
  check("f32", evaluate_float, 146);
}

TEST(Golden, F64) {
  check("f64", evaluate_float, 42);
}

TEST(Golden, Half) {
  check("half", evaluate_half, 152);
}

TEST(Golden, Convert) {
  check("cvt", evaluate_convert, 784);
}

TEST(Golden, Integer) {
  check("integer", evaluate_integer, 109);
}

TEST(Golden, Video) {
  check("video", evaluate_video, 1040);
}

}  // namespace
}  // namespace assay::numerics
