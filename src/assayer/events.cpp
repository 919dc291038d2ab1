#include "assayer/events.h"

#include <fmt/format.h>

#include <functional>
#include <regex>

#include "assayer/locate.h"
#include "base/symbol.h"

namespace assay::assayer {

namespace {

constexpr std::size_t kLongestMessage = 2000;

// What only the judge may say of a finding.
constexpr const char* kReserved[] = {"worst",   "smallest", "smallest_shows", "trial",
                                     "symptom", "symptoms", "found_with",     "also"};

std::string replaced(const std::string& text, const std::regex& pattern,
                     const std::function<std::string(const std::smatch&)>& by) {
  std::string out;
  auto at = text.cbegin();
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    out.append(at, (*it)[0].first);
    out += by(*it);
    at = (*it)[0].second;
  }
  return out.append(at, text.cend());
}

// "y[3, 5]" for a byte of a tensor whose buffer is exactly as large as it is.
std::string element(const contract::Contract& contract, const trial::Trial& trial, const std::string& name,
                    int64_t offset, int64_t bytes) {
  const contract::TensorSpec* spec = contract.tensor(name);
  if (!spec) return "";
  std::vector<int64_t> extents;
  int64_t count = 1;
  for (const auto& extent : spec->shape) {
    const auto n = extent.eval(trial.shape);
    if (!n || *n <= 0) return "";
    extents.push_back(*n);
    count *= *n;
  }
  const int64_t item = bytes / count;
  if (item <= 0 || item * count != bytes || item > 8 || offset < 0 || offset >= bytes) return "";
  return name + contract::coordinates(extents, offset / item);
}

std::string in_words(const contract::Contract& contract, const trial::Trial& trial, std::string text) {
  static const std::regex kMangled("\\b_Z[A-Za-z0-9_.$]+"), kFile("(/[^ :]+):(\\d+)"),
      kOffset("offset (\\d{1,15}) of `([A-Za-z_][A-Za-z0-9_]*)` \\(allocation \\d+, (\\d{1,15}) bytes\\)"),
      kAllocation("\\(allocation \\d+, ");
  if (text.size() > kLongestMessage) text.resize(kLongestMessage);
  text = replaced(text, kMangled, [](const std::smatch& m) { return plain_name(m[0]); });
  text = replaced(text, kFile, [](const std::smatch& m) { return shown(m[1]) + ":" + m[2].str(); });
  text = replaced(text, kOffset, [&](const std::smatch& m) {
    const std::string place = element(contract, trial, m[2], std::stoll(m[1]), std::stoll(m[3]));
    return place.empty() ? m[0].str() : place;
  });
  return replaced(text, kAllocation, [](const std::smatch&) { return std::string("("); });
}

}  // namespace

std::string text_at(const Json& json, const char* key) {
  if (!json.is_object()) return "";
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::optional<Finding> read_event(const contract::Contract& contract, const trial::Trial& trial,
                                  const subject::Event& event) {
  Finding finding;
  finding.kind = text_at(event, "kind");
  if (!judge::kind_named(finding.kind)) return std::nullopt;
  finding.message = in_words(contract, trial, text_at(event, "message"));
  if (const auto where = event.find("where"); where != event.end() && where->is_object()) {
    finding.where.file = text_at(*where, "file");
    const auto line = where->find("line");
    if (line != where->end() && line->is_number_integer()) finding.where.line = line->get<int>();
  }
  if (const auto evidence = event.find("evidence"); evidence != event.end() && evidence->is_object())
    finding.evidence = *evidence;
  for (const char* key : kReserved) finding.evidence.erase(key);
  const std::string severity = text_at(event, "severity");
  if (severity == "warning") finding.severity = Severity::Warning;
  if (severity == "note") finding.severity = Severity::Note;
  return finding;
}

}  // namespace assay::assayer
