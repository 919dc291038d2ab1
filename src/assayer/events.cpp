#include "assayer/events.h"

#include <fmt/format.h>

#include <functional>
#include <regex>

#include "assayer/locate.h"
#include "base/symbol.h"
#include "report/elements.h"

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

// "y[3, 5]" for a byte of a tensor's buffer, which may begin before the tensor (where callers promise less
// than a fresh allocation's alignment) and ends with it.
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
  const int64_t item = contract::info(spec->dtype).bytes, begin = bytes - item * count;
  if (begin < 0 || offset < begin || offset >= bytes) return "";
  return name + contract::coordinates(extents, (offset - begin) / item);
}

// "[3, 5]" for a tensor's name.
std::string shape_text(const contract::Contract& contract, const trial::Trial& trial, const std::string& name) {
  const contract::TensorSpec* spec = contract.tensor(name);
  if (!spec) return "";
  std::string text;
  for (const auto& extent : spec->shape) {
    const auto n = extent.eval(trial.shape);
    if (!n) return "";
    text += fmt::format("{}{}", text.empty() ? "" : ", ", *n);
  }
  return "[" + text + "]";
}

std::string in_words(const contract::Contract& contract, const trial::Trial& trial, std::string text) {
  static const std::regex kMangled("\\b_Z[A-Za-z0-9_.$]+"), kFile("(/[^ :]+):(\\d+)"),
      kOffset("offset (\\d{1,15}) of `([A-Za-z_][A-Za-z0-9_]*)` \\(allocation \\d+, (\\d{1,15}) bytes\\)"),
      kTensor("`([A-Za-z_][A-Za-z0-9_]*)` \\(allocation \\d+, (\\d{1,15}) bytes\\)"), kAllocation("\\(allocation \\d+, ");
  if (text.size() > kLongestMessage) text.resize(kLongestMessage);
  text = replaced(text, kMangled, [](const std::smatch& m) { return plain_name(m[0]); });
  text = replaced(text, kFile, [](const std::smatch& m) { return shown(m[1]) + ":" + m[2].str(); });
  text = replaced(text, kOffset, [&](const std::smatch& m) {
    const std::string place = element(contract, trial, m[2], std::stoll(m[1]), std::stoll(m[3]));
    return place.empty() ? m[0].str() : place;
  });
  text = replaced(text, kTensor, [&](const std::smatch& m) {
    const std::string extents = shape_text(contract, trial, m[1]);
    return extents.empty() ? m[0].str() : fmt::format("`{}` (shape {})", m[1].str(), extents);
  });
  return replaced(text, kAllocation, [](const std::smatch&) { return std::string("("); });
}

// Of the frames that a place was inlined through, and of the other side of a race.
void shorten_paths(Json& place) {
  const auto shorten = [](Json& frame) {
    if (const std::string file = text_at(frame, "file"); !file.empty()) frame["file"] = shown(file);
  };
  if (const auto chain = place.find("chain"); chain != place.end() && chain->is_array())
    for (Json& frame : *chain) shorten(frame);
  const auto other = place.find("other");
  if (other == place.end() || !other->is_object()) return;
  shorten(*other);
  shorten_paths(*other);
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
  report::name_elements(finding);
  shorten_paths(finding.evidence);
  const std::string severity = text_at(event, "severity");
  if (severity == "warning") finding.severity = Severity::Warning;
  if (severity == "note") finding.severity = Severity::Note;
  return finding;
}

}  // namespace assay::assayer
