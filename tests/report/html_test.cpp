// The page: what it holds, how large it is, and (with Chromium) how it behaves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/random.h"
#include "folders.h"
#include "report/report.h"

namespace assay::report {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kSource = R"(#include <cuda_bf16.h>

// One block for each row; "quoted" <text> & more.
__global__ void sums(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
  __nv_bfloat16 sum = __float2bfloat16(0.0f);
  for (int i = 0; i < n; ++i) {
    sum = __hadd(sum, x[blockIdx.x * n + i]);
  }
  y[blockIdx.x] = sum;
}
)";

fs::path folder() {
  const fs::path path = fs::path(kBinaryFolder) / "report_page";
  fs::create_directories(path);
  return path;
}

std::string source_path() {
  const fs::path path = folder() / "sums.cu";
  std::ofstream(path) << kSource;
  return path.string();
}

judge::Picture picture() {
  judge::Picture p;
  p.output = "dw";
  p.dtype = "bf16";
  p.extents = {500, 260};
  p.rows = 500;
  p.columns = 260;
  p.elements = p.judged = 130000;
  p.outside = 421;
  p.grid_rows = p.grid_columns = judge::Picture::kSide;
  p.hits_vary = true;
  Random random(7);
  const auto uniform = [&] { return static_cast<double>(random.between(0, 1 << 20)) / (1 << 20); };
  for (int i = 0; i < p.grid_rows * p.grid_columns; ++i) {
    const int row = i / p.grid_columns;
    p.grid.push_back(static_cast<float>(uniform() * (row < 6 ? 90.0 / (row + 1) : 1.7)));
  }
  p.grid[5] = std::numeric_limits<float>::infinity();
  p.grid[7] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < judge::Picture::kBins; ++i) {
    const double z = -6 + (i + 0.5) * 0.2;
    p.histogram[static_cast<std::size_t>(i + 1)] = static_cast<int64_t>(10000 * std::exp(-z * z / 2));
  }
  p.histogram[0] = 300;
  for (int i = 0; i < judge::Picture::kMostPoints; ++i) {
    const double hits = std::pow(10.0, 4 * uniform()), size = std::pow(10.0, 5 * uniform() - 4);
    const double budget = size * 0.0011, z = (hits > 400 ? hits / 100 : 1) * uniform();
    p.points.push_back({static_cast<float>(size), static_cast<float>(i % 50 == 0 ? 0 : z * budget),
                        static_cast<float>(budget), static_cast<float>(hits), z < 6});
  }
  return p;
}

judge::Sheet sheet(bool output) {
  judge::Sheet s;
  s.name = output ? "dw" : "dy";
  s.dtype = "bf16";
  s.extents = {3, 8};
  s.is_output = output;
  for (int i = 0; i < 24; ++i) {
    s.values.push_back(i == 5 && output ? std::nan("") : 0.125 * i - 1);
    s.texts.push_back(judge::number_text(contract::DType::bf16, s.values.back()));
    if (!output) continue;
    if (i == 5 || i == 9) s.wrong.push_back({i, 0.002, {s.texts.back(), "0.1", "0.002", "0.001", ""}});
    s.exact.push_back(0.125 * i - 1);
    s.low.push_back(0.125 * i - 1.001);
    s.high.push_back(0.125 * i - 0.999);
    s.admitted.push_back(i != 5 && i != 9);
  }
  return s;
}

// One line brings all the error; another none at all.
std::shared_ptr<const Profile> precision(const std::string& file) {
  const auto line = [&](int number, const char* operation, double share, uint64_t stagnated) {
    return LineProfile{.where = {file, number},
                       .operation = operation,
                       .share = share,
                       .introduced = 0.3,
                       .inherited = 0.01,
                       .amplification = 1,
                       .executions = 4096,
                       .cancelled_bits = 3,
                       .stagnated = stagnated};
  };
  Profile profile;
  profile.lines = {line(7, "add.bf16", 1, 3012), line(9, "st.global", 0, 0)};
  profile.outputs = {{.name = "dw", .error = 0.3, .lines = {{{file, 7}, 1}, {{file, 9}, 0}}}};
  profile.decisions = {{{file, 6}, "a branch", 2}};
  return std::make_shared<const Profile>(std::move(profile));
}

Finding inaccurate(const std::string& file) {
  evidence::Numeric e{.output = "dw", .judged = 130000, .outside = 421};
  e.worst = evidence::Worst{.index = {4, 15},
                            .stored = -0.0625,
                            .exact = -0.0417343,
                            .low = -0.0419,
                            .high = -0.0415,
                            .z = 112.5,
                            .terms = 4096,
                            .text = {"-0.0625", "-0.0417343", "0.0208", "0.00019", "109", false}};
  e.error_line = evidence::ErrorLine{.where = {file, 7}, .operation = "add.bf16", .share = 1};
  e.profile = precision(file);
  return {.kind = Kind::LowPrecisionAccumulation,
          .where = {file, 7},
          .evidence = e,
          .found = {.smallest = "D=16 T=22 V=66, seed 5"},
          .reproduce = "assay replay trials/ac010a75828e.json"};
}

Finding varying() {
  evidence::Numeric e{.output = "dw"};
  e.difference = evidence::Difference{.relation = "repeated", .count = 3, .first = "1.5", .second = "2"};
  return {.kind = Kind::Nondeterministic, .severity = Severity::Warning, .evidence = e};
}

Finding note(const std::string& file) {
  return {.kind = Kind::NarrowSum,
          .severity = Severity::Note,
          .where = {file, 7},
          .evidence = evidence::Code{"sums", "add.bf16 %rs1, %rs1, %rs2;",
                                     "a running sum is rounded to bf16 (8 bits) at every addition"},
          .count = 5};
}

Report failing_report(int trials = 500) {
  Report report;
  report.contract = "kernels/embedding.toml";
  report.title = "Embedding gradient </script><b>bold</b> {{js}}";
  report.verdict = judge::Verdict::Fail;
  report.seconds = 6.4;
  report.coverage = {
      {"trials", trials},
      {"shapes", 40},
      {"elements_judged", 1234567},
      {"dims",
       {{"T", {{"tried_min", 1}, {"tried_max", 4096}, {"promised_min", 1}, {"promised_max", 65536}}},
        {"D", {{"tried_min", 8}, {"tried_max", 1024}, {"promised_min", 8}, {"promised_max", 8192}}}}},
      {"not_covered", {"T beyond 4096: too large for memory here"}}};
  const std::string file = source_path();
  report.sources = {file};
  report.findings = {inaccurate(file), varying(), note(file)};
  const char* inputs[] = {"natural",     "dy cancelling",  "dy heavy-tail",
                          "tokens zipf", "dy nan-element", "tokens one-value"};
  const char* conditions[] = {"plain", "other schedule", "overlapped", "poison zeros"};
  for (int i = 0; i < trials; ++i) {
    report.trials.push_back({fmt::format("D={} T={}", 8 << (i % 5), 1 + i % 8 * 37), inputs[i * 7 % 6],
                             conditions[i * 3 % 4], i == trials - 1});
  }
  report.picture_of = "D=260 T=4096 V=500, tokens zipf, seed 9";
  report.pictures = {picture()};
  report.numbers_of = "D=16 T=22 V=66, seed 5";
  report.numbers = {sheet(false), sheet(true)};
  return report;
}

Report passing() {
  Report report = failing_report(12);
  report.title = "A passing one";
  report.verdict = judge::Verdict::Pass;
  report.findings.clear();
  report.numbers.clear();
  return report;
}

fs::path write(const std::string& name, const std::string& page) {
  const fs::path path = folder() / name;
  std::ofstream(path) << page;
  return path;
}

TEST(Html, IsOneFileThatAsksForNothing) {
  const std::string page = html(std::vector<Report>{failing_report()});
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("http://www.example")));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("{{css}}")));
}

TEST(Html, TextOfReportsIsNoMarkup) {
  const std::string page = html(std::vector<Report>{failing_report()});
  EXPECT_THAT(page, Not(HasSubstr("<b>bold</b>")));
  EXPECT_THAT(page, HasSubstr("\\u003cb>bold\\u003c/b> {{js}}"));
  EXPECT_THAT(page, HasSubstr("JSON.parse(document.getElementById"));
}

TEST(Html, BytesThatAreNoTextDoNotStopIt) {
  Report report = failing_report(1);
  std::get<evidence::Numeric>(report.findings[0].evidence).output = "bad \xff\xfe bytes";
  EXPECT_THAT(html(std::vector<Report>{report}), HasSubstr("bad "));
}

TEST(Html, StaysSmallForFiveHundredTrials) {
  EXPECT_LT(html(std::vector<Report>{failing_report(500)}).size(), 2'000'000u);
}

// What the page does is tested by using it: browser.py says what is wrong.
void use(const fs::path& page) {
  const std::string command =
      fmt::format("timeout 120 python3 '{}/tests/report/browser.py' '{}' > '{}.log' 2>&1", kSourceFolder,
                  page.string(), page.string());
  const int status = WEXITSTATUS(std::system(command.c_str()));
  std::ifstream log(page.string() + ".log");
  const std::string said(std::istreambuf_iterator<char>(log), {});
  if (status == 77) GTEST_SKIP() << said;
  EXPECT_EQ(status, 0) << said;
}

TEST(HtmlInABrowser, AFailingReport) {
  use(write("failing.html", html(std::vector<Report>{failing_report()})));
}

TEST(HtmlInABrowser, SeveralReports) {
  use(write("several.html", html(std::vector<Report>{passing(), failing_report(30)})));
}

TEST(HtmlInABrowser, AReportWithNothingToShow) {
  Report report;
  report.contract = "empty.toml";
  report.unknown = {"no trial could be run"};
  use(write("empty.html", html(std::vector<Report>{report})));
}

}  // namespace
}  // namespace assay::report
