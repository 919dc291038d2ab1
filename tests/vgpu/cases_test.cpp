// Runs the text cases of tests/ptx-cases (its README says how they are written) on both engines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "folders.h"
#include "forms.h"
#include "numerics/formats.h"

namespace assay::vgpu {
namespace {

using golden::Record;

struct RecordedCase {
  Record record;
  int line = 0;  // of the form
};

// A number of `kind`: a value with a point, or bits.
uint64_t number(const std::string& text, const std::string& kind) {
  numerics::Format format;
  const bool is_float = numerics::format_named(kind, format);
  const bool is_hex = text.compare(0, 2, "0x") == 0;
  if (is_float && !is_hex) return numerics::from_double(format, std::stod(text));
  const uint64_t bits =
      text[0] == '-' ? static_cast<uint64_t>(std::stoll(text, nullptr, 0)) : std::stoull(text, nullptr, 0);
  const int width = golden::width(kind);
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

void add_row(RecordedCase& c, const std::vector<std::string>& row) {
  Record& record = c.record;
  const size_t sources = record.kinds.size() - 1;
  ASSERT_EQ(row.size(), sources + 2) << "line " << c.line;
  ASSERT_EQ(row[sources], "->") << "line " << c.line;
  record.operands.resize(sources);
  for (size_t j = 0; j < sources; ++j) record.operands[j].push_back(number(row[j], record.kinds[j + 1]));
  record.results.push_back(number(row[sources + 1], record.kinds[0]));
  ++record.count;
}

std::vector<RecordedCase> read_cases(const std::filesystem::path& path) {
  std::vector<RecordedCase> cases;
  std::ifstream in(path);
  int number_of_line = 0;
  for (std::string line; std::getline(in, line);) {
    ++number_of_line;
    const std::vector<std::string> parts = words(line);
    if (parts.empty() || parts[0][0] == '#') continue;
    if (parts[0] == "form") {
      cases.emplace_back();
      cases.back().line = number_of_line;
      cases.back().record.form = cases.back().record.text = line.substr(line.find("form") + 5);
    } else if (parts[0] == "kinds") {
      cases.back().record.kinds.assign(parts.begin() + 1, parts.end());
    } else {
      add_row(cases.back(), parts);
    }
  }
  return cases;
}

class Cases : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Cases, Hold) {
  const auto& [file, watch] = GetParam();
  const std::vector<RecordedCase> cases =
      read_cases(std::filesystem::path(kSourceFolder) / "tests/ptx-cases" / (file + ".txt"));
  ASSERT_FALSE(cases.empty());
  std::vector<Record> records;
  for (const RecordedCase& c : cases) records.push_back(c.record);
  testing::Forms forms(records, testing::elementwise_kernel, watch);
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string wrong = testing::check_stored(forms, i, records[i]);
    if (!wrong.empty()) {
      ADD_FAILURE() << fmt::format("{}.txt:{}: {} {}", file, cases[i].line, records[i].form, wrong);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Cases,
                         ::testing::Combine(::testing::Values("integer", "bits", "compare", "move", "float",
                                                              "half", "convert", "video"),
                                            ::testing::Bool()),
                         [](const auto& chosen) {
                           return std::get<0>(chosen.param) +
                                  (std::get<1>(chosen.param) ? "Watched" : "Plain");
                         });

}  // namespace
}  // namespace assay::vgpu
