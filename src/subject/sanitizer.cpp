#include "subject/sanitizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "subject/subject.h"

namespace assay::subject {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "=========";

// Every record is a line that begins so, then lines that are further in.
struct Title {
  std::string_view begins;
  Kind kind;
  bool is_error;
};
constexpr Title kTitles[] = {
    {"Invalid __", Kind::OutOfBounds, true},
    {"Error: Race reported between", Kind::DataRace, true},
    {"Warning: Race reported between", Kind::DataRace, false},
    {"Uninitialized __", Kind::Uninitialized, false},  // a read; whether a result depends on it is not known
    {"Barrier error detected", Kind::BarrierDivergence, true},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string_view text_after(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + word.size());
}

// "k(float *)+0x70 in a/k.cu:9", "k(float *)+0x70 in k.cu:9:k(float *)"
void read_place(std::string_view text, Where& where, std::string* kernel) {
  const std::size_t in = text.rfind(" in ");
  const std::string_view code = text.substr(0, in);
  if (kernel) *kernel = std::string(code.substr(0, std::min(code.rfind("+0x"), code.size())));
  if (in == std::string_view::npos) return;
  std::string_view place = trimmed(text.substr(in + 4));
  const std::size_t dot = place.find_last_of('/') == std::string_view::npos ? 0 : place.find_last_of('/');
  const std::size_t colon = place.find(':', dot);
  if (colon == std::string_view::npos) return;
  int line = 0;
  std::from_chars(place.data() + colon + 1, place.data() + place.size(), line);
  where = {std::string(place.substr(0, colon)), line};
}

// "(1,0,0)" after the word.
std::optional<evidence::Index3> read_index(std::string_view text, std::string_view word) {
  std::string_view rest = text_after(text, word);
  if (rest.empty() || rest.front() != '(') return std::nullopt;
  evidence::Index3 index{};
  const char* at = rest.data() + 1;
  const char* end = rest.data() + rest.size();
  for (uint32_t& value : index) {
    const auto read = std::from_chars(at, end, value);
    if (read.ec != std::errc()) return std::nullopt;
    at = std::min(end, read.ptr + 1);
  }
  return index;
}

void read_detail(std::string_view line, SanitizerRecord& record) {
  if (line.starts_with("at ")) return read_place(line.substr(3), record.where, &record.kernel);
  if (line.starts_with("by thread ")) {
    record.thread = read_index(line, "by thread ");
    record.block = read_index(line, "in block ");
  } else if (line.starts_with("Address 0x") || line.starts_with("Access to 0x") ||
             line.starts_with("Access at 0x")) {
    const std::string_view digits = text_after(line, "0x");
    uint64_t address = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), address, 16).ec == std::errc())
      record.address = address;
    if (line.find("misaligned") != std::string_view::npos) record.kind = Kind::Misaligned;
  } else if (record.kind == Kind::DataRace && line.starts_with("and ") && record.other.line == 0) {
    std::string_view rest = text_after(line, " access at ");
    read_place(rest.substr(0, std::min(rest.rfind(" ["), rest.size())), record.other, nullptr);
  }
}

SanitizerRecord begin_record(const Title& title, std::string_view line) {
  SanitizerRecord record{.kind = title.kind, .is_error = title.is_error, .title = std::string(line)};
  if (title.kind == Kind::DataRace) read_place(text_after(line, " access at "), record.where, &record.kernel);
  return record;
}

bool same_place(const SanitizerRecord& a, const SanitizerRecord& b) {
  return a.kind == b.kind && a.title == b.title && a.where == b.where && a.other == b.other;
}

}  // namespace

std::vector<SanitizerRecord> sanitizer_records(std::string_view text) {
  std::vector<SanitizerRecord> records;
  bool open = false;  // the last one may go on
  std::istringstream lines{std::string(text)};
  const auto finish = [&] {  // one for every thread: the first tells
    if (open && std::any_of(records.begin(), records.end() - 1,
                            [&](const SanitizerRecord& r) { return same_place(r, records.back()); }))
      records.pop_back();
    open = false;
  };
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = line;
    if (!rest.starts_with(kPrefix)) continue;
    rest.remove_prefix(kPrefix.size());
    const bool further_in = rest.starts_with("    ");
    rest = trimmed(rest);
    if (further_in) {
      if (open) read_detail(rest, records.back());
      continue;
    }
    finish();
    for (const Title& title : kTitles) {
      if (!rest.starts_with(title.begins)) continue;
      records.push_back(begin_record(title, rest));
      open = true;
    }
  }
  finish();
  return records;
}

namespace {

// The tensor that an address is in or nearest to, and how far it is from its start.
void place_in(const std::vector<protocol::BufferPlace>& buffers, uint64_t address, evidence::Place& place) {
  const auto distance = [&](const protocol::BufferPlace& buffer) {
    if (address < buffer.address) return buffer.address - address;
    const uint64_t end = buffer.address + static_cast<uint64_t>(buffer.length);
    return address < end ? 0 : address - end + 1;
  };
  const auto nearest = std::min_element(buffers.begin(), buffers.end(), [&](const auto& a, const auto& b) {
    return distance(a) < distance(b);
  });
  place.space = evidence::Space::Global;
  place.address = address;
  constexpr uint64_t kFar = uint64_t{1} << 30;
  if (nearest == buffers.end() || distance(*nearest) > kFar) return;
  place.offset = static_cast<int64_t>(address - nearest->address);
  place.allocation =
      evidence::Allocation{.label = nearest->name, .bytes = static_cast<uint64_t>(nearest->length)};
}

// "Invalid __global__ write of size 4 bytes"
uint32_t size_of_access(std::string_view title) {
  const std::string_view digits = text_after(title, "of size ");
  uint32_t bytes = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  return bytes;
}

evidence::AccessKind access_of(std::string_view title) {
  using evidence::AccessKind;
  for (const auto& [word, kind] :
       {std::pair{" write", AccessKind::Write}, std::pair{" atomic", AccessKind::Atomic},
        std::pair{" read", AccessKind::Read}})
    if (title.find(word) != std::string_view::npos) return kind;
  return AccessKind::Use;
}

}  // namespace

Finding finding_of(const SanitizerRecord& record, const std::vector<protocol::BufferPlace>& buffers) {
  Finding finding{.kind = record.kind,
                  .severity = record.is_error ? Severity::Error : Severity::Warning,
                  .where = record.where};
  evidence::CodePlace code{.kernel = record.kernel, .block = record.block, .thread = record.thread};
  if (record.kind == Kind::DataRace) {
    evidence::Race race{.code = code, .relation = evidence::Relation::Block};
    race.place.space = evidence::Space::Shared;
    race.other.where = record.other;
    race.other.is_same_block = true;
    race.access = access_of(record.title.find("Write") != std::string::npos ? " write" : " read");
    finding.evidence = std::move(race);
  } else if (record.kind == Kind::BarrierDivergence) {
    finding.evidence = evidence::Synchronisation{.code = code, .detail = record.title};
  } else {
    evidence::Access access{
        .code = code, .access = access_of(record.title), .bytes = size_of_access(record.title)};
    if (record.address) place_in(buffers, *record.address, access.place);
    if (!access.place.allocation) access.detail = record.title;
    finding.evidence = std::move(access);
  }
  return finding;
}

std::string find_sanitizer() {
  std::vector<fs::path> places;
  if (const char* own = std::getenv("ASSAY_COMPUTE_SANITIZER")) places.emplace_back(own);
  const fs::path toolkit = fs::path(find_nvcc()).parent_path().parent_path();
  places.push_back(toolkit / "bin/compute-sanitizer");
  places.push_back(toolkit / "compute-sanitizer/compute-sanitizer");
  if (const char* path = std::getenv("PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      places.push_back(fs::path(folder) / "compute-sanitizer");
  }
  std::error_code error;
  for (const fs::path& place : places)
    if (fs::is_regular_file(place, error)) return place.string();
  return "";
}

std::vector<std::string> sanitizer_command(const std::string& program, std::string_view tool,
                                           const std::string& log) {
  constexpr int kMostRecords = 50;
  std::vector<std::string> words = {program,
                                    "--tool",
                                    std::string(tool),
                                    "--log-file",
                                    log,
                                    "--print-limit",
                                    std::to_string(kMostRecords),
                                    "--show-backtrace",
                                    "no"};
  if (tool == "memcheck") words.insert(words.end(), {"--report-api-errors", "no"});
  return words;
}

}  // namespace assay::subject
