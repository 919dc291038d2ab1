#include "assayer/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "assayer/attempt.h"
#include "assayer/locate.h"
#include "shadow/shadow.h"
#include "trial/families.h"
#include "trial/plan.h"

namespace assay::assayer {

namespace {

constexpr double kMostSeconds = 30;   // of a call, where nothing else is waiting
constexpr double kWorthTrying = 0.2;  // seconds: less are not enough for a call
constexpr double kManyElements = 1 << 16;  // to follow, where fewer may do
// The largest error that the shadow saw, as a part of the worst that the judge saw, for one to explain the
// other.
constexpr double kExplains = 0.02;
constexpr double kManyBits = 4, kMuchLarger = 10;  // of a cancellation
constexpr double kOrdinary = 0x1p-20;              // relative: what enters at each operation in f32, at most
constexpr double kBrings = 0.2;                    // share of a line that brings some of the error
constexpr double kMostOf = 0.1;                    // of the growth of an error, for a line to be its cause
constexpr double kTiny = 0x1p-20;                  // of the operands, what their cancellation may lose
constexpr double kPooled = 0.05;                   // share of lines that are not told apart, for a second run
constexpr double kSmallShare = 0.01;               // of a line that need not be told apart
constexpr double kGuilty = 0.3;                    // share of a line that is worth naming

std::string base_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Only what the contract calls an output, and the lines' shares over those.
Json restricted(const contract::Contract& contract, Json profile) {
  Json outputs = Json::array();
  for (Json& output : profile["outputs"]) {
    const std::string name = output.value("name", "");
    const bool wanted =
        std::any_of(contract.tensors.begin(), contract.tensors.end(),
                    [&](const contract::TensorSpec& t) { return t.is_output() && t.name == name; });
    if (wanted) outputs.push_back(std::move(output));
  }
  for (Json& line : profile["lines"]) {
    double share = 0;
    for (const Json& output : outputs)
      for (const Json& part : output["lines"])
        if (part["file"] == line["file"] && part["line"] == line["line"])
          share += part["share"].get<double>();
    line["share"] = outputs.empty() ? 0.0 : share / static_cast<double>(outputs.size());
  }
  std::stable_sort(profile["lines"].begin(), profile["lines"].end(), [](const Json& a, const Json& b) {
    return a["share"].get<double>() > b["share"].get<double>();
  });
  profile["outputs"] = std::move(outputs);
  return profile;
}

const Json* output_named(const Json& profile, const std::string& name) {
  for (const Json& output : profile["outputs"])
    if (output["name"] == name) return &output;
  return nullptr;
}

const Json* line_at(const Json& profile, const Json& place) {
  for (const Json& line : profile["lines"])
    if (line["file"] == place["file"] && line["line"] == place["line"]) return &line;
  return nullptr;
}

bool is_broken(const Json& output) {
  return output.value("broken", 0) > 0;
}

bool is_number(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_number();
}

// Does what the shadow saw of this output explain what the judge saw?
bool explains(const Finding& finding, const Json& output) {
  if (is_broken(output)) return true;
  const Json worst = finding.evidence.value("worst", Json::object());
  if (!is_number(worst, "stored") || !is_number(worst, "exact")) return false;
  const double stored = worst["stored"], exact = worst["exact"];
  const double scale = std::max(std::fabs(stored), std::fabs(exact));
  return scale > 0 && output.value("relative", 0.0) >= kExplains * std::fabs(stored - exact) / scale;
}

}  // namespace

namespace {

// How much of the outputs' errors enters at lines that were not told apart.
double pooled(const Json& profile) {
  double most = 0;
  for (const Json& output : profile["outputs"]) most = std::max(most, std::fabs(output.value("others", 0.0)));
  return most;
}

// The lines to tell apart in a second run: those with a share, then those that brought most.
std::string leading_lines(const Json& profile) {
  std::vector<std::pair<double, std::string>> order;
  for (const Json& line : profile["lines"]) {
    const double share = std::fabs(line.value("share", 0.0)),
                 brought = line.value("introduced", 0.0) * std::sqrt(line.value("executions", 0.0));
    const bool leads = share > kSmallShare;
    if (!leads && !(brought > 0)) continue;
    order.emplace_back(leads ? 1e30 * share : brought,
                       fmt::format("{}:{}", line.value("file", ""), line.value("line", 0)));
  }
  std::sort(order.rbegin(), order.rend());
  std::string lines;
  for (const auto& [weight, place] : order) lines += (lines.empty() ? "" : ";") + place;
  return lines;
}

Json follow(const contract::Contract& contract, const subject::Subject& subject, const trial::Trial& trial,
            const CheckOptions& options, const std::string& lines, const Deadline& deadline) {
  if (deadline.left() < kWorthTrying) return nullptr;
  if (options.device != subject::Device::Virtual) return nullptr;
  trial::Trial plain = trial;
  plain.condition.ordered = plain.condition.overlapped = plain.condition.warmed = plain.condition.grown =
      false;
  const auto inputs = trial::make_inputs(contract, plain);
  if (!inputs) return nullptr;
  subject::RunnerOptions runner_options = options.runner;
  runner_options.device = subject::Device::Virtual;
  runner_options.precision = true;
  runner_options.precision_lines = lines;
  runner_options.timeout = std::min(kMostSeconds, deadline.left());
  subject::Runner runner(contract, subject, runner_options);
  const subject::Observation seen = runner.run(plain, *inputs);
  for (const subject::Event& event : seen.events)
    if (event.value("event", "") == "precision" && event.contains("profile"))
      return restricted(contract, event["profile"]);
  return nullptr;
}

}  // namespace

Json precision_of(const contract::Contract& contract, const subject::Subject& subject,
                  const trial::Trial& trial, const CheckOptions& options, const Deadline& deadline) {
  Json profile = follow(contract, subject, trial, options, "", deadline);
  if (!profile.is_object() || pooled(profile) < kPooled) return profile;
  Json again = follow(contract, subject, trial, options, leading_lines(profile), deadline);
  return again.is_object() && pooled(again) < pooled(profile) ? again : profile;
}

namespace {

bool any_broken(const Json& profile) {
  return profile.is_object() && std::any_of(profile["outputs"].begin(), profile["outputs"].end(), is_broken);
}

// Families whose values are, or may be, large and finite.
constexpr trial::Family kLarge[] = {trial::Family::LargeScale, trial::Family::Peaked, trial::Family::Outliers,
                                    trial::Family::HeavyTail, trial::Family::Extremes};

// The trial with finite inputs, of this family where the contract permits it; none: it permits it nowhere.
std::optional<trial::Trial> with_inputs(const contract::Contract& contract, trial::Trial trial,
                                        trial::Family family) {
  bool changed = false;
  for (const contract::TensorSpec& spec : contract.tensors) {
    if (!spec.is_input() || !contract::is_float(spec.dtype)) continue;
    const std::vector<trial::Family> legal = trial::families_for(spec);
    const auto set = trial.families.find(spec.name);
    if (std::find(legal.begin(), legal.end(), family) != legal.end())
      trial.families[spec.name] = family, changed = true;
    else if (set != trial.families.end() && trial::is_nonfinite(set->second))
      trial.families.erase(set);
  }
  return changed ? std::optional(trial) : std::nullopt;
}

}  // namespace

Json precision_of(const Finding& finding, const contract::Contract& contract, const subject::Subject& subject,
                  const trial::Trial& found, const trial::Trial& smallest, const CheckOptions& options,
                  const Deadline& deadline) {
  Json profile = precision_of(contract, subject, smallest, options, deadline);
  if (finding.kind != "nonfinite" || any_broken(profile)) return profile;
  // An infinity that was put in, or a zero that was left of something small, says nothing about lines. What
  // overflows for large inputs does.
  const auto size = trial::size_of(contract, found.shape);
  const trial::Trial& base = size && size->elements < kManyElements ? found : smallest;
  for (const trial::Family family : kLarge) {
    const auto large = with_inputs(contract, base, family);
    if (!large) continue;
    Json other = precision_of(contract, subject, *large, options, deadline);
    if (!any_broken(other)) continue;
    other["inputs"] = trial::to_string(*large);
    return other;
  }
  return profile;
}

namespace {

bool same_place(const Json& a, const Json& b) {
  return a["file"] == b["file"] && a["line"] == b["line"];
}

// Another output is rounded here to its own type, and its contract knows that: what is computed from it may
// go on from the rounded value.
bool is_declared(const Json& profile, const Json& output, const Json& place) {
  for (const Json& other : profile["outputs"])
    if (other["name"] != output["name"] && other.contains("rounded_at") &&
        same_place(other["rounded_at"], place))
      return true;
  return false;
}

// The line that most of an output's error enters at, with its share; null when none stands out.
Json guilty(const Json& profile, const Json& output) {
  double declared = 0;
  Json first;
  for (const Json& place : output["lines"]) {
    if (is_declared(profile, output, place))
      declared += place["share"].get<double>();
    else if (first.is_null())
      first = place;
  }
  if (first.is_null() || declared > 0.9999) return nullptr;
  first["share"] = std::min(1.0, first["share"].get<double>() / (1 - std::max(declared, 0.0)));
  const double share = first["share"];
  return share < kGuilty || share < output.value("others", 0.0) ? Json() : first;
}

// Roundings of f32 are as they must be. Where the output's error is many times larger than any that entered
// at its line, and bits cancel at a line that makes errors about so much larger, that they matter is its
// doing.
const Json* cancelling(const Json& profile, const Json& output, const Json& line) {
  const double entered = line.value("introduced_max", 1.0);
  if (is_broken(output) || entered > kOrdinary || line.value("overflowed", 0) > 0) return nullptr;
  const auto brings = [](const Json& part) { return std::fabs(part["share"].get<double>()) > kBrings; };
  if (std::count_if(output["lines"].begin(), output["lines"].end(), brings) < 2) return nullptr;
  const double grown = output.value("relative", 0.0) / std::max(entered, 0x1p-60);
  const Json* most = nullptr;
  for (const Json& other : profile["lines"]) {
    const double amplification = other.value("amplification", 0.0);
    if (grown < kMuchLarger || amplification < std::max(kMuchLarger, kMostOf * grown) ||
        other.value("cancelled_bits", 0.0) < kManyBits)
      continue;
    if (most == nullptr || amplification > (*most)["amplification"].get<double>()) most = &other;
  }
  return most;
}

// Roundings do not explain it. A function may hide it from the shadow (tanhf gives 1 for large arguments, and
// so does its shadow); where most bits cancel is still the place to look, if what is missing is so small
// against what cancels there that it can have been lost.
const Json* suspect(const Finding& finding, const Json& profile) {
  if (finding.kind != "precision-loss" && finding.kind != "wrong-result") return nullptr;
  const Json worst = finding.evidence.value("worst", Json::object());
  if (!is_number(worst, "stored") || !is_number(worst, "exact")) return nullptr;
  const double stored = worst["stored"], missing = std::fabs(stored - worst["exact"].get<double>());
  if (finding.kind == "wrong-result" && stored != 0) return nullptr;
  const Json* most = nullptr;
  for (const Json& line : profile["lines"]) {
    if (line.value("cancelled_bits", 0.0) < kManyBits || line.value("amplification", 0.0) < kMuchLarger ||
        missing > kTiny * line.value("cancelled_from", 0.0))
      continue;
    if (most == nullptr || line["amplification"].get<double>() > (*most)["amplification"].get<double>())
      most = &line;
  }
  return most;
}

const Json* chosen(const Json& profile, const std::string& name) {
  const Json* output = output_named(profile, name);
  return output == nullptr && !profile["outputs"].empty() ? &profile["outputs"].front() : output;
}

}  // namespace

namespace {

std::string place_text(const Json& line) {
  return fmt::format("{}:{}", base_name(line.value("file", "")), line.value("line", 0));
}

void name_line(Finding& finding, const Json& line, double share) {
  finding.where = {shown(line.value("file", "")), line.value("line", 0)};
  finding.evidence["guilty"] = {{"file", line["file"]}, {"line", line["line"]}, {"share", share}};
}

}  // namespace

std::string sentence(const Json& profile, const std::string& name) {
  const Json* output = chosen(profile, name);
  const Json place = output ? guilty(profile, *output) : Json();
  const Json* line = place.is_null() ? nullptr : line_at(profile, place);
  if (line == nullptr) return "";
  const std::string inputs = profile.value("inputs", "");
  std::string said = fmt::format("{}{:.0f} % of the error of `{}` enters at {} ({}): {}",
                                 inputs.empty() ? "" : fmt::format("with large inputs ({}), ", inputs),
                                 100 * place["share"].get<double>(), output->value("name", ""),
                                 place_text(*line), line->value("operation", ""), shadow::reason(*line));
  const Json* cancels = cancelling(profile, *output, *line);
  if (cancels != nullptr && !same_place(*cancels, *line))
    said += fmt::format(
        ". At {} up to {:.0f} leading bits cancel, which makes such errors {:.3g} times larger",
        place_text(*cancels), cancels->value("cancelled_bits", 0.0), cancels->value("amplification", 0.0));
  return said;
}

namespace {

// Nothing coarser than f32 ever entered, so no sum was narrow, whatever its errors look like.
bool is_never_narrow(const contract::Contract& contract, const Json& profile) {
  return contract.reference.accumulate == contract::DType::f32 && !any_broken(profile) &&
         std::all_of(profile["lines"].begin(), profile["lines"].end(), [](const Json& line) {
           return line.value("introduced_max", 1.0) <= kOrdinary && line.value("overflowed", 0) == 0;
         });
}

void acquit_of_narrow_sums(Finding& finding) {
  finding.kind = "wrong-result";
  finding.evidence.erase("diagnosis");
  const auto from = finding.message.find(", as if "), to = finding.message.find(": ", from);
  if (from != std::string::npos && to != std::string::npos) finding.message.erase(from, to - from);
}

}  // namespace

void accuse(const contract::Contract& contract, Finding& finding, const Json& profile) {
  if (!profile.is_object() || !finding.evidence.is_object() || !is_numeric(finding.kind)) return;
  finding.evidence["precision"] = profile;
  const std::string name = finding.evidence.value("output", std::string());
  const Json* output = chosen(profile, name);
  if (output == nullptr) return;
  if (!explains(finding, *output)) {
    if (finding.kind == "low-precision-accumulation" && is_never_narrow(contract, profile))
      acquit_of_narrow_sums(finding);
    const Json* line = suspect(finding, profile);
    if (line == nullptr) return;
    name_line(finding, *line, 0);
    finding.message += fmt::format(
        "\nRounding errors that can be followed do not explain it; bits cancel at {}, and what is missing is "
        "small enough to be lost there",
        place_text(*line));
    return;
  }
  const std::string said = sentence(profile, name);
  if (said.empty()) return;
  const Json place = guilty(profile, *output);
  const Json* line = line_at(profile, place);
  const Json* cancels = cancelling(profile, *output, *line);
  name_line(finding, cancels == nullptr ? *line : *cancels, place["share"].get<double>());
  finding.message += "\n" + said;
}

Explanation explain(const contract::Contract& contract, const contract::Shape& shape,
                    const CheckOptions& options) {
  Explanation explanation;
  subject::BuildOutcome built = subject::build(contract, {.cache = options.cache});
  if (!built.subject) {
    explanation.contract_wrong = built.failure.contract_wrong;
    explanation.problem = built.failure.error.text();
    return explanation;
  }
  trial::PlanOptions plan_options;
  plan_options.seed = options.seed;
  trial::Plan plan(contract, plan_options);
  explanation.trial = plan.next([](const contract::Shape&, bool) { return true; }).trial;
  for (const auto& [name, value] : shape) explanation.trial.shape[name] = value;
  explanation.profile = precision_of(contract, *built.subject, explanation.trial, options);
  if (explanation.profile.is_null()) explanation.problem = "the call could not be followed at this shape";
  return explanation;
}

}  // namespace assay::assayer
