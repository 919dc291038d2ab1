#include "assayer/shadow_run.h"

#include <algorithm>
#include <cmath>

#include "assayer/locate.h"
#include "subject/runner.h"
#include "trial/families.h"
#include "trial/plan.h"

namespace assay::assayer {

namespace {

constexpr double kMostSeconds = 30;        // of a call, where nothing else is waiting
constexpr double kWorthTrying = 0.2;       // seconds: less are not enough for a call
constexpr double kManyElements = 1 << 16;  // to follow, where fewer may do
constexpr double kPooled = 0.05;           // share of lines that are not told apart, for a second run
constexpr double kSmallShare = 0.01;       // of a line that need not be told apart

// Only what the contract calls an output, and the lines' shares over those.
Profile restricted(const contract::Contract& contract, Profile profile) {
  std::erase_if(profile.outputs, [&](const OutputProfile& output) {
    const contract::TensorSpec* spec = contract.tensor(output.name);
    return !spec || !spec->is_output();
  });
  for (LineProfile& line : profile.lines) {
    double share = 0;
    for (const OutputProfile& output : profile.outputs)
      for (const LineShare& part : output.lines)
        if (part.where == line.where) share += part.share;
    line.share = profile.outputs.empty() ? 0.0 : share / static_cast<double>(profile.outputs.size());
  }
  std::stable_sort(profile.lines.begin(), profile.lines.end(),
                   [](const LineProfile& a, const LineProfile& b) { return a.share > b.share; });
  return profile;
}

// How much of the outputs' errors enters at lines that were not separated.
double pooled(const Profile& profile) {
  double most = 0;
  for (const OutputProfile& output : profile.outputs) most = std::max(most, std::fabs(output.others));
  return most;
}

// The lines to tell apart in a second run: those with a share, then those that brought most.
std::vector<Where> leading_lines(const Profile& profile) {
  constexpr double kFirst = 1e30;  // before all that have no share
  std::vector<std::pair<double, Where>> order;
  for (const LineProfile& line : profile.lines) {
    const double share = std::fabs(line.share),
                 brought = line.introduced * std::sqrt(static_cast<double>(line.executions));
    const bool leads = share > kSmallShare;
    if (leads || brought > 0) order.emplace_back(leads ? kFirst * share : brought, line.where);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Where> lines;
  for (auto& [weight, place] : order) lines.push_back(std::move(place));
  return lines;
}

std::shared_ptr<const Profile> follow(const contract::Contract& contract, const subject::Subject& subject,
                                      const trial::Trial& trial, const CheckOptions& options,
                                      const std::vector<Where>& lines, const Deadline& deadline) {
  if (deadline.left() < kWorthTrying) return nullptr;
  if (options.device != subject::Device::Virtual) return nullptr;
  trial::Trial plain = trial;
  plain.condition.ordered = plain.condition.overlapped = plain.condition.warmed = plain.condition.grown =
      false;
  const auto inputs = trial::make_inputs(contract, plain, options.generator);
  if (!inputs) return nullptr;
  subject::RunnerOptions runner_options = options.runner;
  runner_options.device = subject::Device::Virtual;
  runner_options.checks = {protocol::Check::Precision};
  runner_options.precision_lines = lines;
  runner_options.timeout = std::min(kMostSeconds, deadline.left());
  subject::Runner runner(contract, subject, runner_options);
  const subject::Observation seen = runner.run(plain, *inputs);
  for (const protocol::Event& event : seen.events)
    if (const auto* profile = std::get_if<protocol::ProfileEvent>(&event))
      return std::make_shared<const Profile>(restricted(contract, profile->profile));
  return nullptr;
}

bool any_broken(const std::shared_ptr<const Profile>& profile) {
  return profile && std::any_of(profile->outputs.begin(), profile->outputs.end(),
                                [](const OutputProfile& output) { return output.broken > 0; });
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

std::shared_ptr<const Profile> profile_of(const contract::Contract& contract, const subject::Subject& subject,
                                          const trial::Trial& trial, const CheckOptions& options,
                                          const Deadline& deadline) {
  auto profile = follow(contract, subject, trial, options, {}, deadline);
  if (!profile || pooled(*profile) < kPooled) return profile;
  const auto again = follow(contract, subject, trial, options, leading_lines(*profile), deadline);
  return again && pooled(*again) < pooled(*profile) ? again : profile;
}

std::shared_ptr<const Profile> profile_of(const Finding& finding, const contract::Contract& contract,
                                          const subject::Subject& subject, const trial::Trial& found,
                                          const trial::Trial& smallest, const CheckOptions& options,
                                          const Deadline& deadline) {
  auto profile = profile_of(contract, subject, smallest, options, deadline);
  if (finding.kind != Kind::Nonfinite || any_broken(profile)) return profile;
  // An infinity that was put in, or a zero that was left of something small, says nothing about lines. What
  // overflows for large inputs does.
  const auto size = trial::size_of(contract, found.shape);
  const trial::Trial& base = size && size->elements < kManyElements ? found : smallest;
  for (const trial::Family family : kLarge) {
    const auto large = with_inputs(contract, base, family);
    if (!large) continue;
    const auto other = profile_of(contract, subject, *large, options, deadline);
    if (!any_broken(other)) continue;
    Profile shown = *other;
    shown.inputs = trial::to_string(*large);
    return std::make_shared<const Profile>(std::move(shown));
  }
  return profile;
}

std::shared_ptr<const Profile> with_shown_paths(Profile profile) {
  for_each_place(profile, [](Where& where) { where.file = shown(where.file); });
  return std::make_shared<const Profile>(std::move(profile));
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
  explanation.profile = profile_of(contract, *built.subject, explanation.trial, options);
  if (!explanation.profile) explanation.problem = "the call could not be tracked at this shape";
  return explanation;
}

}  // namespace assay::assayer
