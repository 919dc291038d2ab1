#include <fmt/format.h>

#include <algorithm>

#include "finding/message.h"
#include "report/report.h"

namespace assay::report {

namespace {

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  std::string operator()(std::string_view code, std::string_view text) const {
    return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
  }

 private:
  bool colour_;
};

constexpr std::string_view kRed = "1;31", kGreen = "1;32", kYellow = "1;33", kBold = "1", kDim = "2";

std::string_view colour_of(judge::Verdict verdict) {
  return verdict == judge::Verdict::Pass ? kGreen : verdict == judge::Verdict::Fail ? kRed : kYellow;
}

// Short: a note says where to look.
std::string note_text(const Finding& note, const Painter& paint, const TerminalOptions& options) {
  return fmt::format("{}  {}:{}\n", paint(kBold, fmt::format("note: {}", to_string(note.kind))),
                     note.where.file, note.where.line) +
         paint(kDim, wrapped(message(note), options.width, "  "));
}

// What else was seen because of it.
std::string consequences_text(const Finding& finding, const TerminalOptions& options) {
  constexpr std::size_t kMost = 3;
  const std::vector<Finding>& all = finding.attribution.consequences;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i)
    text += wrapped(fmt::format("consequence: {}: {}", to_string(all[i].kind), message(all[i])),
                    options.width, "  ");
  if (all.size() > kMost) text += fmt::format("  {} more consequences\n", all.size() - kMost);
  return text;
}

// "seen on the virtual device and on the GPU, which shows wrong-result: …"
std::string devices_text(const FoundCase& found) {
  if (found.devices.empty()) return "";
  const auto named = [](const std::string& device) {
    return device == "cuda" ? std::string("on the GPU") : fmt::format("on the {} device", device);
  };
  std::string text = "seen " + named(found.devices.front());
  if (found.devices.size() > 1) text += " and " + named(found.devices.back());
  if (found.devices.size() > 1 && !found.other_shows.empty()) text += ", which shows " + found.other_shows;
  return text;
}

std::string finding_text(const Finding& finding, const Painter& paint, const TerminalOptions& options) {
  if (finding.severity == Severity::Note && finding.where.line > 0) return note_text(finding, paint, options);
  std::string text = paint(finding.severity == Severity::Error ? kRed : kYellow, to_string(finding.kind));
  if (!finding.where.file.empty()) text += "  " + text_of(finding.where);
  text += "\n" + wrapped(message(finding), options.width, "  ");
  text += source_text(finding);
  for (const std::string& chain : chain_lines(finding)) text += wrapped(chain, options.width, "  ");
  if (const std::string thread = thread_text(finding); !thread.empty()) text += "  " + thread + "\n";
  if (is_launched_by_python(finding))
    for (const std::string& origin : origin_lines(finding)) text += wrapped(origin, options.width, "  ");
  text += consequences_text(finding, options);
  if (const std::string_view fix = advice(finding); finding.severity == Severity::Error && !fix.empty())
    text += wrapped(fmt::format("fix: {}", fix), options.width, "  ");
  if (const FoundCase& found = finding.found; !found.smallest.empty()) {
    const std::string shows = found.smallest_shows.empty() ? "" : "; there " + found.smallest_shows;
    text += wrapped(fmt::format("smallest case: {}{}", found.smallest, shows), options.width, "  ");
  }
  if (const std::string devices = devices_text(finding.found); !devices.empty())
    text += wrapped(devices, options.width, "  ");
  if (!finding.found.witness.empty())
    text += wrapped("also seen by " + finding.found.witness, options.width, "  ");
  if (finding.found.trials > 1) text += fmt::format("  seen in {} trials\n", finding.found.trials);
  if (!finding.reproduce.empty()) text += paint(kDim, "  " + finding.reproduce) + "\n";
  return text;
}

std::string counted(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// An obligation is as good as its worst kernel: refuted, then unknown, then in agreement, then proved.
const Json& worse(const Json& a, const Json& b) {
  const auto rank = [](const Json& one) {
    const std::string status = one.value("status", "");
    return status == "refuted" ? 3 : status == "unknown" ? 2 : status == "agrees" ? 1 : 0;
  };
  return rank(b) > rank(a) ? b : a;
}

// " in 302 elements at 15 shapes"
std::string compared_text(const Json& obligation) {
  const Json compared = obligation.value("compared", Json::object());
  const auto elements = compared.value("elements", int64_t{0});
  if (elements == 0) return "";
  return fmt::format(" in {} at {}", counted(elements, "element"),
                     counted(compared.value("shapes", int64_t{0}), "shape"));
}

// "proved for every shape: bounds, launch; unknown: race (k.cu:14: out of time); not reached: coverage"
std::string proof_text(const Report& report) {
  if (!report.no_proof.empty()) return "\nno proofs: " + report.no_proof;
  if (!report.proof.is_object()) return "";
  std::vector<std::pair<std::string, const Json*>> obligations;
  for (const Json& one : report.proof["obligations"]) {
    const std::string name = one.value("obligation", "");
    const auto known =
        std::find_if(obligations.begin(), obligations.end(), [&](const auto& o) { return o.first == name; });
    if (known == obligations.end())
      obligations.emplace_back(name, &one);
    else
      known->second = &worse(*known->second, one);
  }
  std::string proved, agrees, open, pending;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (const auto& [name, one] : obligations) {
    const std::string status = one->value("status", ""), why = one->value("reason", "");
    if (status == "proved") add(proved, name);
    if (status == "agrees") agrees = "\nvalues agree with the formula" + compared_text(*one);
    if (status == "unknown" && one->value("pending", false))
      add(pending, name);
    else if (status == "unknown")
      add(open, name + (why.empty() ? "" : fmt::format(" ({})", why)));
  }
  const std::string gpu = report.proof.value("gpu", "");
  std::string text;
  const auto say = [&](const std::string& what, const std::string& list) {
    if (!list.empty()) text += fmt::format("{}{}: {}", text.empty() ? "\n" : "; ", what, list);
  };
  say("proved for every shape" + (gpu.empty() ? "" : " on an " + gpu), proved);
  say("unknown", open);
  say("not reached in time", pending);
  return text + agrees;
}

// "655,360", "8.6 G".
std::string amount(double n) {
  constexpr std::pair<double, char> kUnits[] = {{1e12, 'T'}, {1e9, 'G'}, {1e6, 'M'}};
  for (const auto& [unit, letter] : kUnits)
    if (n >= unit) return fmt::format("{:.1f} {}", n / unit, letter);
  std::string text = fmt::format("{:.0f}", n);
  if (text.size() > 3) text.insert(text.size() - 3, ",");
  return text;
}

// "61 of 234 planned trials", or "523 trials (all 234 planned)".
std::string trials_text(const Json& c) {
  const int trials = c.value("trials", 0), planned = c.value("planned", 0), run = c.value("planned_run", 0);
  if (planned == 0) return counted(trials, "trial");
  if (run < planned) return fmt::format("{} of {} planned trials", run, planned);
  return fmt::format("{} (all {} planned)", counted(trials, "trial"), planned);
}

// "shape" for "shapes".
std::string_view singular(std::string_view plural) {
  return plural.ends_with('s') ? plural.substr(0, plural.size() - 1) : plural;
}

// "14 conditions, 20 of 24 inputs".
std::string required_text(const Json& required) {
  std::string text;
  const Json groups = required.value("groups", Json::object());
  for (const auto& [group, count] : groups.items()) {
    const auto met = count.value("met", 0), of = count.value("of", 0);
    text += (text.empty() ? "" : ", ") +
            (met == of ? counted(of, singular(group)) : fmt::format("{} of {} {}", met, of, group));
  }
  return text;
}

// How far each dim was tried, and all of them together.
std::string range_text(const Json& c) {
  std::string text;
  const Json dims = c.value("dims", Json::object());
  for (const auto& [name, dim] : dims.items()) {
    const auto low = dim.value("tried_min", int64_t{0}), high = dim.value("tried_max", int64_t{0});
    text += (text.empty() ? "" : ", ") +
            (low == high ? fmt::format("{} {}", name, low) : fmt::format("{} {} to {}", name, low, high));
    if (const auto sampled = dim.value("sampled_max", int64_t{0}); sampled > high)
      text += fmt::format(" (by sample to {})", sampled);
  }
  const Json largest = c.value("largest", Json::object());
  const double most = largest.value("elements", 0.0), promised = largest.value("promised_elements", 0.0);
  if (promised > 0)
    text += fmt::format("{}together up to {} of {} promised elements", text.empty() ? "" : "; ", amount(most),
                        amount(promised));
  if (const double sampled = largest.value("sampled_elements", 0.0); sampled > most)
    text += fmt::format(", and {} by a sample of the blocks", amount(sampled));
  return text;
}

// "\nTITLE: one; another", if there are any.
void add_list(const Json& coverage, const char* key, std::string_view title, std::string& text) {
  const auto list = coverage.find(key);
  if (list == coverage.end() || list->empty()) return;
  std::string joined;
  for (const Json& item : *list) joined += (joined.empty() ? "" : "; ") + item.get<std::string>();
  text += fmt::format("\n{}: {}", title, joined);
}

// "was busy for 62 % of the time, with 4,000 calls repeated under load"
std::string busy_text(const Json& c) {
  const Json gpu = c.value("gpu", Json::object());
  const double seconds = gpu.value("seconds", 0.0), busy = gpu.value("busy_seconds", 0.0);
  return fmt::format("was busy for {:.0f} % of the time, with {} repeated under load",
                     seconds > 0 ? 100 * busy / seconds : 0,
                     counted(gpu.value("repeated_calls", int64_t{0}), "call"));
}

// What a check on both devices did on the second.
std::string gpu_text(const Json& c) {
  std::string text = fmt::format("{}, {}", trials_text(c), counted(c.value("shapes", 0), "shape"));
  if (c.contains("gpu")) text += "; it " + busy_text(c);
  for (const Json& why : c.value("unknown", Json::array()))
    text += fmt::format("; not checked: {}", why.get<std::string>());
  return text;
}

// No call gave a result, and the report says why: how much of the plan that is tells nothing more.
bool is_nothing_tried(const Report& report) {
  return !report.unknown.empty() && report.findings.empty() &&
         report.coverage.value("shapes", int64_t{0}) == 0;
}

std::string coverage_text(const Report& report, const TerminalOptions& options) {
  const Json& c = report.coverage;
  if (is_nothing_tried(report)) return wrapped(proof_text(report), options.width, "  ");
  const auto judged = c.value("elements_judged", int64_t{0}), all = c.value("elements", int64_t{0});
  const std::string elements = fmt::format("{}{} judged in {:.1f} s", counted(judged, "element"),
                                           judged < all ? fmt::format(" of {}", all) : "", report.seconds);
  // Outputs that were made elsewhere and came as files are one call, of no device that we know.
  std::string text = report.device == "files"
                         ? elements + ", from files"
                         : fmt::format("{}, {}, {} on the {} device, seed {}", trials_text(c),
                                       counted(c.value("shapes", 0), "shape"), elements,
                                       c.contains("cuda") ? "virtual" : report.device, report.seed);
  if (c.contains("cuda")) text += "\non the GPU: " + gpu_text(c["cuda"]);
  if (c.contains("gpu")) text += "\nthe GPU " + busy_text(c);
  if (c.contains("required") && report.verdict != judge::Verdict::Fail)
    text += "\nrequired for a pass: " + required_text(c["required"]);
  for (const Json& trial : c.value("held_up", Json::array()))
    text += fmt::format("\nheld up by {}", trial.get<std::string>());
  if (c.contains("dims")) text += "\n" + range_text(c);
  add_list(c, "wider_budgets", "budgets allow for tensor-core rounding", text);
  add_list(c, "not_covered", "not covered", text);
  text += proof_text(report);
  return wrapped(text, options.width, "  ");
}

}  // namespace

std::string finding_text(const Finding& finding, const TerminalOptions& options) {
  return finding_text(finding, Painter(options.colour), options);
}

std::string wrapped(std::string_view text, int width, std::string_view indent) {
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += fmt::format("{}{}\n", indent, line);
    line.clear();
  };
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find_first_of(" \n", at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(at, end - at);
    if (line.size() + word.size() + indent.size() + 1 > static_cast<std::size_t>(width)) flush();
    if (!word.empty()) line += (line.empty() ? "" : " ") + std::string(word);
    if (end < text.size() && text[end] == '\n') flush();
    at = end + 1;
  }
  flush();
  return out;
}

std::string terminal(const Report& report, const TerminalOptions& options) {
  const Painter paint(options.colour);
  std::string verdict(judge::to_string(report.verdict));
  for (char& c : verdict) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = fmt::format("{}  {}", paint(colour_of(report.verdict), verdict), report.name());
  if (!report.title.empty()) text += fmt::format("  {}", paint(kBold, report.title));
  text += "\n";
  for (const Finding& finding : report.findings) text += "\n" + finding_text(finding, paint, options);
  for (const std::string& reason : report.unknown)
    text += wrapped("could not be checked: " + reason, options.width, "  ");
  if (const std::string coverage = coverage_text(report, options); !coverage.empty())
    text += "\n" + paint(kDim, coverage);
  return text;
}

std::string table(std::span<const Report> reports, const TerminalOptions& options) {
  const Painter paint(options.colour);
  std::size_t widest = 8;
  for (const Report& report : reports) widest = std::max(widest, report.name().size());
  std::string text;
  int counts[3] = {};
  for (const Report& report : reports) {
    ++counts[static_cast<std::size_t>(report.verdict)];
    const std::string verdict = fmt::format("{:<13}", judge::to_string(report.verdict));
    std::string kinds;
    for (const Finding& finding : report.findings) {
      if (finding.severity != Severity::Note)
        kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", to_string(finding.kind));
    }
    text += fmt::format("{} {:<{}}  {:>6.1f} s  {}\n", paint(colour_of(report.verdict), verdict),
                        report.name(), widest, report.seconds, kinds);
  }
  return text + fmt::format("{} passed, {} failed, {} inconclusive\n", counts[0], counts[1], counts[2]);
}

}  // namespace assay::report
