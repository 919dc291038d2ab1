#include "assayer/gallery.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "assayer/locate.h"
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
  if (condition.schedule != 0) parts.emplace_back("other schedule");
  if (!condition.ordered) parts.emplace_back("idle device");
  for (const auto& [flag, name] : kNames) {
    if (condition.*flag) parts.emplace_back(name);
  }
  return parts.empty() ? "plain" : fmt::format("{}", fmt::join(parts, ", "));
}

// Inputs of which most results are zero, equal, exact or not finite: a picture of those tells nothing.
bool is_degenerate(const Trial& trial) {
  using trial::Family;
  constexpr Family kDegenerate[] = {Family::Zeros,    Family::Constant, Family::SmallIntegers, Family::Ties,
                                    Family::AllZeros, Family::OneValue, Family::IndexCoded,    Family::Subnormal};
  return std::any_of(trial.families.begin(), trial.families.end(), [&](const auto& input) {
    return trial::is_nonfinite(input.second) ||
           std::find(std::begin(kDegenerate), std::end(kDegenerate), input.second) != std::end(kDegenerate);
  });
}

bool has_failed(const Attempt& attempt) {
  return std::any_of(attempt.findings.begin(), attempt.findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::Error; });
}

}  // namespace

CodeReading read_code(const contract::Contract& contract, const subject::Subject& subject) {
  CodeReading reading;
  const auto texts = subject::device_code(subject, contract.kernel.arch);
  if (!texts) return reading;
  std::vector<ptx::Module> modules;
  const lint::Options options{.fast_math = contract.reference.math == contract::Math::Fast};
  for (const std::string& text : *texts) {
    auto module = ptx::parse(text, "ptx");
    if (!module) continue;
    const std::string name = subject.ptx.empty() ? contract.kernel.sources.front() : subject.ptx;
    for (lint::Note& note : lint::lint(*module, options, name)) {
      note.where.file = shown(note.where.file);
      reading.notes.push_back(std::move(note));
    }
    modules.push_back(std::move(*module));
  }
  reading.tensor_cores = subject::TensorCores(modules);
  return reading;
}

void Gallery::add(const Trial& trial, const Attempt& attempt) {
  if (!options_.pictures) return;
  const bool failed = has_failed(attempt);
  rows_.push_back(
      {contract::to_string(trial.shape), inputs_text(trial), condition_text(trial.condition), failed});
  const auto size = trial::size_of(contract_, trial.shape);
  if (failed || attempt.calls.empty() || !size) return;
  const auto telling = std::pair(!is_degenerate(trial), size->elements);
  if (telling <= most_telling_) return;
  most_telling_ = telling;
  sound_ = {trial, attempt.calls.front().outputs, !attempt.wider_budgets.empty()};
}

void Gallery::add_failure(const Finding& finding, const Trial& trial, const Attempt& attempt,
                          const Trial& small, Laboratory& lab) {
  const bool of_numbers = finding.evidence.contains("worst") || finding.kind == "unwritten-output";
  if (!options_.pictures || attempt.calls.empty() || drawn_of_numbers_) return;
  if (!failed_.outputs.empty() && !of_numbers) return;
  drawn_of_numbers_ = of_numbers;
  failed_ = {trial, attempt.calls.front().outputs, !attempt.wider_budgets.empty()};
  const Attempt again = lab.attempt(small);
  if (!again.calls.empty()) smallest_ = {small, again.calls.front().outputs, !again.wider_budgets.empty()};
}

judge::Options Gallery::options_for(const Shown& shown) const {
  judge::Options options;
  options.tensor_cores = shown.tensor_cores;
  options.threads = options_.threads;
  options.seed = options_.seed;
  return options;
}

void Gallery::hang(const contract::Reference& reference, report::Report& report) const {
  if (!options_.pictures) return;
  report.trials = rows_;
  for (const std::string& source : contract_.kernel.sources) {
    report.sources.push_back(shown(contract_.resolve(source)));
  }
  const Shown& drawn = failed_.outputs.empty() ? sound_ : failed_;
  if (const auto inputs = trial::make_inputs(contract_, drawn.trial); inputs && !drawn.outputs.empty()) {
    if (auto pictures = judge::draw(contract_, reference, *inputs, drawn.outputs, options_for(drawn))) {
      // Outputs that are right say nothing of a finding that is not about numbers.
      if (!failed_.outputs.empty() && !drawn_of_numbers_)
        std::erase_if(*pictures, [](const judge::Picture& picture) { return picture.outside == 0; });
      report.pictures = std::move(*pictures);
      report.picture_of = trial::to_string(drawn.trial);
    }
  }
  if (const auto inputs = trial::make_inputs(contract_, smallest_.trial);
      inputs && !smallest_.outputs.empty()) {
    if (auto sheets =
            judge::tabulate(contract_, reference, *inputs, smallest_.outputs, options_for(smallest_))) {
      report.numbers = std::move(*sheets);
      report.numbers_of = trial::to_string(smallest_.trial);
    }
  }
}

}  // namespace assay::assayer
