#include "assayer/page_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "assayer/locate.h"
#include "base/schedule.h"
#include "subject/device_code.h"

namespace assay::assayer {

using trial::Trial;

namespace {

std::string inputs_text(const Trial& trial) {
  std::vector<std::string> parts;
  for (const auto& [name, family] : trial.families) {
    if (family != trial::Family::Natural)
      parts.push_back(fmt::format("{} {}", name, trial::to_string(family)));
  }
  return parts.empty() ? "natural" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string condition_text(const trial::Condition& condition) {
  constexpr std::pair<bool trial::Condition::*, std::string_view> kNames[] = {
      {&trial::Condition::others_late, "other streams late"},
      {&trial::Condition::moved, "moved"},
      {&trial::Condition::aliased, "aliased"},
      {&trial::Condition::repeated, "repeated"},
      {&trial::Condition::overlapped, "overlapped"},
      {&trial::Condition::fresh, "new process"},
      {&trial::Condition::warmed, "after other calls"},
      {&trial::Condition::grown, "after a smaller call"},
  };
  std::vector<std::string> parts;
  if (condition.poison != trial::Poison::Nan)
    parts.push_back(fmt::format("poison {}", to_string(condition.poison)));
  if (condition.schedule != 0) {
    const ScheduleKind kind = schedule_kind(condition.schedule);
    parts.emplace_back(is_extreme(kind) ? describe(kind) : "other schedule");
  }
  if (!condition.ordered) parts.emplace_back("idle device");
  for (const auto& [flag, name] : kNames) {
    if (condition.*flag) parts.emplace_back(name);
  }
  return parts.empty() ? "plain" : fmt::format("{}", fmt::join(parts, ", "));
}

// Inputs of which most results are zero, equal, exact or not finite: a picture of those tells nothing.
bool is_degenerate(const Trial& trial) {
  using trial::Family;
  constexpr Family kDegenerate[] = {Family::Zeros,      Family::Constant, Family::SmallIntegers,
                                    Family::Ties,       Family::AllZeros, Family::OneValue,
                                    Family::IndexCoded, Family::Subnormal};
  return std::any_of(trial.families.begin(), trial.families.end(), [&](const auto& input) {
    return trial::is_nonfinite(input.second) ||
           std::find(std::begin(kDegenerate), std::end(kDegenerate), input.second) != std::end(kDegenerate);
  });
}

}  // namespace

CodeReading read_code(const contract::Contract& contract, const subject::Subject& subject) {
  CodeReading reading;
  const auto texts = subject::device_code(subject, contract.kernel.arch);
  if (!texts || !subject.python.empty()) return reading;
  std::vector<ptx::Module> modules;
  const lint::Options options{.fast_math = contract.reference.math == contract::Math::Fast};
  for (const std::string& text : *texts) {
    auto module = ptx::parse(text, subject.ptx.empty() ? "ptx" : shown(subject.ptx));
    if (!module) {
      if (!subject.ptx.empty()) reading.problem = module.error().text();
      continue;
    }
    const std::string name = subject.ptx.empty() ? contract.kernel.sources.front() : subject.ptx;
    for (Finding& note : lint::lint(*module, options, name)) {
      note.where.file = shown(note.where.file);
      reading.notes.push_back(std::move(note));
    }
    modules.push_back(std::move(*module));
  }
  reading.tensor_cores = subject::TensorCores(modules);
  return reading;
}

std::vector<Finding> read_loaded(const contract::Contract& contract, const std::string& text) {
  std::vector<Finding> notes;
  const auto module = ptx::parse(text, "ptx");
  if (!module) return notes;
  const lint::Options options{.fast_math = contract.reference.math == contract::Math::Fast};
  for (Finding& note : lint::lint(*module, options, contract.kernel.sources.front())) {
    note.where.file = shown(note.where.file);
    notes.push_back(std::move(note));
  }
  return notes;
}

void PageData::add(const Trial& trial, const TrialResult& result) {
  if (!options_.pictures) return;
  const bool failed = has_error(result.findings);
  rows_.push_back(
      {contract::to_string(trial.shape), inputs_text(trial), condition_text(trial.condition), failed});
  const auto size = trial::size_of(contract_, trial.shape);
  if (failed || result.calls.empty() || !size) return;
  const auto telling = std::pair(!is_degenerate(trial), size->elements);
  if (telling <= most_telling_) return;
  most_telling_ = telling;
  sound_ = {trial, result.calls.front().outputs, !result.wider_budgets.empty()};
}

void PageData::add_failure(const Finding& finding, const Trial& trial, const TrialResult& result,
                           const Trial& small, TrialRunner& lab) {
  const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
  const bool of_numbers = (numeric && numeric->worst) || finding.kind == Kind::UnwrittenOutput;
  if (!options_.pictures || result.calls.empty() || drawn_of_numbers_) return;
  if (!failed_.outputs.empty() && !of_numbers) return;
  drawn_of_numbers_ = of_numbers;
  failed_ = {trial, result.calls.front().outputs, !result.wider_budgets.empty()};
  const TrialResult again = lab.run(small);
  if (!again.calls.empty()) smallest_ = {small, again.calls.front().outputs, !again.wider_budgets.empty()};
}

judge::Options PageData::options_for(const Shown& shown) const {
  judge::Options options;
  options.tensor_cores = shown.tensor_cores;
  options.threads = options_.threads;
  options.seed = options_.seed;
  return options;
}

void PageData::add_to(report::Report& report, const reference::Reference& reference) const {
  if (!options_.pictures) return;
  report.trials = rows_;
  for (const std::string& source : contract_.kernel.sources) {
    report.sources.push_back(shown(contract_.resolve(source)));
  }
  const Shown& drawn = failed_.outputs.empty() ? sound_ : failed_;
  if (const auto inputs = trial::make_inputs(contract_, drawn.trial, options_.generator);
      inputs && !drawn.outputs.empty()) {
    if (auto pictures = judge::draw(contract_, reference, *inputs, drawn.outputs, options_for(drawn))) {
      // Outputs that are right say nothing of a finding that is not about numbers.
      if (!failed_.outputs.empty() && !drawn_of_numbers_)
        std::erase_if(*pictures, [](const judge::Picture& picture) { return picture.outside == 0; });
      report.pictures = std::move(*pictures);
      report.picture_of = trial::to_string(drawn.trial);
    }
  }
  if (const auto inputs = trial::make_inputs(contract_, smallest_.trial, options_.generator);
      inputs && !smallest_.outputs.empty()) {
    if (auto sheets =
            judge::tabulate(contract_, reference, *inputs, smallest_.outputs, options_for(smallest_))) {
      report.numbers = std::move(*sheets);
      report.numbers_of = trial::to_string(smallest_.trial);
    }
  }
}

}  // namespace assay::assayer
