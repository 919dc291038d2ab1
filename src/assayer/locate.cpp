#include "assayer/locate.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "subject/process.h"
#include "subject/subject.h"

namespace assay::assayer {

namespace fs = std::filesystem;

namespace {

constexpr double kCompileSeconds = 30;

struct Suspicion {
  std::string_view kind;
  const char* instruction;  // as a regular expression over one line of PTX
};
constexpr Suspicion kSuspicions[] = {
    {"low-precision-accumulation",
     R"(\b(atom|red)\b\S*\.add\S*\.(bf16|f16)|\b(add|fma|sub)\S*\.(bf16|f16)(x2)?\b|\bmma\.sync\S*\.f16\.f16\.f16\.f16)"},
    {"biased-rounding", R"(\bcvt\.(rz|rm|rp)\S*\.(bf16|f16|f32|e4m3|e5m2))"},
};

struct Place {
  std::string file;
  int line = 0;
};

// PTX says where code came from: `.loc file line column` and, for inlined code, `inlined_at file line
// column`.
class PtxLines {
 public:
  explicit PtxLines(const std::string& ptx) : text_(ptx) {
    static const std::regex file(R"re(\.file\s+(\d+)\s+"([^"]*)")re");
    for (std::sregex_iterator it(text_.begin(), text_.end(), file), end; it != end; ++it) {
      files_[std::stoi((*it)[1])] = (*it)[2];
    }
  }

  // The lines of `sources` that hold an instruction like this, the most frequent first.
  Place find(const std::regex& instruction, const std::vector<std::string>& sources) const {
    static const std::regex loc(R"(\.loc\s+(\d+)\s+(\d+))"), inlined(R"(inlined_at\s+(\d+)\s+(\d+))");
    std::map<std::pair<std::string, int>, int> counts;
    Place now;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (std::regex_search(line, match, loc)) {
        const auto inner = place(match, sources);
        if (inner.line > 0) now = inner;
        std::smatch outer;
        if (inner.line == 0 && std::regex_search(line, outer, inlined)) {
          const auto caller = place(outer, sources);
          if (caller.line > 0) now = caller;
        }
        continue;
      }
      if (now.line > 0 && std::regex_search(line, instruction)) ++counts[{now.file, now.line}];
    }
    Place best;
    int most = 0;
    for (const auto& [where, count] : counts) {
      if (count > most) {
        most = count;
        best = {where.first, where.second};
      }
    }
    return best;
  }

 private:
  Place place(const std::smatch& match, const std::vector<std::string>& sources) const {
    const auto it = files_.find(std::stoi(match[1]));
    if (it == files_.end()) return {};
    for (const std::string& source : sources) {
      std::error_code error;
      if (it->second == source || fs::equivalent(it->second, source, error))
        return {source, std::stoi(match[2])};
    }
    return {};
  }

  const std::string& text_;
  std::map<int, std::string> files_;
};

std::string ptx_of(const contract::Contract& contract, const std::string& source) {
  std::ifstream own(source);
  if (source.ends_with(".ptx")) return {std::istreambuf_iterator<char>(own), {}};
  const std::string nvcc = subject::find_nvcc();
  if (nvcc.empty()) return "";
  std::string pattern = (fs::temp_directory_path() / "assay-ptx-XXXXXX").string();
  if (!mkdtemp(pattern.data())) return "";
  const std::string out = pattern + "/subject.ptx";
  std::vector<std::string> words = {nvcc, "-ptx", "-lineinfo", "-arch=" + contract.kernel.arch};
  words.insert(words.end(), contract.kernel.flags.begin(), contract.kernel.flags.end());
  words.insert(words.end(), {"-o", out, source});
  const auto result = subject::run_command(words, kCompileSeconds);
  std::string text;
  if (result && result->status == 0) {
    std::ifstream file(out);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::error_code error;
  fs::remove_all(pattern, error);
  return text;
}

Place definition(const std::string& source, const std::string& name) {
  std::ifstream file(source);
  const std::regex pattern(
      fmt::format(R"(\b{}\s*\()", std::regex_replace(name, std::regex(R"([^\w])"), R"(\$&)")));
  Place place;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (std::regex_search(line, pattern)) place = {source, number};
    if (place.line > 0 && line.find('{') != std::string::npos) break;
  }
  return place;
}

std::vector<std::string> source_paths(const contract::Contract& contract) {
  std::vector<std::string> sources;
  for (const std::string& source : contract.kernel.sources) {
    sources.push_back(fs::absolute(contract.resolve(source)).lexically_normal().string());
  }
  return sources;
}

bool find_instruction(const contract::Contract& contract, std::string_view kind, Where& where) {
  const std::vector<std::string> sources = source_paths(contract);
  for (const Suspicion& suspicion : kSuspicions) {
    if (suspicion.kind != kind) continue;
    for (const std::string& source : sources) {
      const std::string ptx = ptx_of(contract, source);
      const Place place = PtxLines(ptx).find(std::regex(suspicion.instruction), sources);
      if (place.line == 0) continue;
      where = {shown(place.file), place.line};
      return true;
    }
  }
  return false;
}

}  // namespace

std::string shown(const std::string& path) {
  std::error_code error;
  const fs::path relative = fs::relative(path, fs::current_path(error), error);
  return error || relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

bool adds_narrowly(const contract::Contract& contract, Where& where) {
  return find_instruction(contract, "low-precision-accumulation", where);
}

void locate(const contract::Contract& contract, Finding& finding) {
  if (finding.where.line > 0) {
    finding.where.file = shown(finding.where.file);
    return;
  }
  if (find_instruction(contract, finding.kind, finding.where)) return;
  const std::vector<std::string> sources = source_paths(contract);
  const std::string& name = contract.kernel.entry.empty() ? contract.kernel.global : contract.kernel.entry;
  for (const std::string& source : sources) {
    const Place place = definition(source, name);
    if (place.line > 0) {
      finding.where = {shown(place.file), place.line};
      return;
    }
  }
  if (!sources.empty()) finding.where = {shown(sources.front()), 1};
}

}  // namespace assay::assayer
