// A trial of which some blocks of each grid are run: what they write is judged (sampled_coverage.cpp: and what nobody
// writes).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assayer/limits.h"
#include "assayer/seen.h"
#include "assayer/trial_runner.h"
#include "base/random.h"
#include "base/symbol.h"
#include "judge/far_draws.h"
#include "trial/generated_inputs.h"
#include "trial/shapes.h"

namespace assay::assayer {

using contract::TensorSpec;
using protocol::SampledLaunch;
using protocol::SampleReport;
using subject::CallOutcome;
using subject::ElementRange;
using subject::Observation;
using trial::Trial;

namespace {

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation

std::vector<int64_t> elements_of(const std::vector<ElementRange>& written, int64_t most) {
  int64_t all = 0;
  for (const ElementRange& range : written) all += range.count;
  // Each range by its ends and evenly within.
  std::vector<int64_t> elements;
  const int64_t step = std::max<int64_t>(1, all / std::max<int64_t>(most, 1));
  for (const ElementRange& range : written) {
    for (int64_t e = range.first; e < range.first + range.count; e += step) elements.push_back(e);
    if ((range.count - 1) % step != 0) elements.push_back(range.first + range.count - 1);
  }
  return elements;
}

// A loop of which iterations were left out: there is none in which it ends.
Finding endless(const SampledLaunch& launch, const std::string& entry) {
  evidence::Process process{.entry = entry, .kernel = launch.kernel};
  process.limit = launch.endless->wraps
                      ? "a 32-bit counter wraps before this loop reaches its end, so the loop never ends"
                      : "the counter of this loop does not grow towards its end";
  Finding finding{.kind = Kind::Timeout};
  if (launch.endless->line > 0) {
    finding.where = {shown(launch.endless->file), launch.endless->line};
    process.standing.push_back(finding.where);
  }
  finding.evidence = std::move(process);
  return finding;
}

}  // namespace

// Elements of an output that are judged: evaluating one may take as many steps as a row is long.
int64_t TrialRunner::sampled_elements(const Trial& trial) const {
  const auto size = work_.of(trial.shape);
  double outputs = 0;
  for (const TensorSpec* spec : contract_.outputs()) {
    const auto extents = spec->extents(trial.shape);
    if (!extents) continue;
    double count = 1;
    for (const int64_t extent : *extents) count *= static_cast<double>(extent);
    outputs = std::max(outputs, count);
  }
  if (!size || size->steps <= 0) return kSampledElements;
  const double affordable = kSampledSteps / size->steps * outputs;
  return static_cast<int64_t>(std::clamp(affordable, static_cast<double>(kLeastSampledElements),
                                         static_cast<double>(kSampledElements)));
}

void TrialRunner::judge_written(const Trial& trial, const SampleReport& report, const subject::Call& call,
                                trial::GeneratedInputs& inputs, TrialResult& result) {
  if (!reference_.is_formula()) return;
  const int64_t most = sampled_elements(trial);
  const auto on_read = [&](const std::string& input, std::span<const int64_t> reads) {
    return inputs.make_read(input, reads);
  };
  std::map<std::string, judge::Ranges> ranges;
  for (const auto& [name, written] : call.written)
    for (const ElementRange& range : written) ranges[name].emplace_back(range.first, range.count);
  judge::Options of_draws;
  of_draws.threads = 1;
  of_draws.on_read = on_read;
  for (Finding& finding :
       judge::judge_far_draws(reference_, inputs.bindings(), call.outputs, ranges, of_draws))
    result.findings.push_back(std::move(finding));
  for (const auto& [name, written] : call.written) {
    if (std::find(report.reduced.begin(), report.reduced.end(), name) != report.reduced.end()) continue;
    judge::Options options;
    options.tensor_cores = !result.wider_budgets.empty();
    options.diagnose = false;
    options.threads = 1;
    options.max_elements = most;
    options.elements[name] = elements_of(written, most);
    options.on_read = on_read;
    if (options.elements[name].empty()) continue;
    auto judgement = judge::judge(contract_, reference_, inputs.bindings(), call.outputs, options);
    if (!judgement) {
      result.sampled.not_judged = judgement.error().text();
      continue;
    }
    result.judged += judgement->judged;
    result.undecided += judgement->undecided;
    for (Finding& finding : judgement->findings) result.findings.push_back(std::move(finding));
  }
}

// A giant call on a real GPU whose result is not used.
Observation TrialRunner::run_giant(const Trial& trial) {
  auto inputs = trial::GeneratedInputs::make(contract_, trial);
  if (!inputs) return {.outcome = CallOutcome::Unavailable, .error = inputs.error().text()};
  runner_.restart();
  Observation observation = runner_.run(trial, inputs->bindings());
  note_use(observation);
  return observation;
}

// A GPU runs all blocks of a giant call: one that takes many times longer than its size explains does not end. Others may
// use the GPU as well, and slow it down: so a quarter of it must end soon before and after the call has not ended again.
std::optional<Finding> TrialRunner::giant_unended(const Trial& trial, const Observation& seen) {
  if (options_.device != subject::Device::Cuda || stage_) return std::nullopt;
  Trial smaller = trial;
  const auto largest = std::max_element(smaller.shape.begin(), smaller.shape.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == smaller.shape.end()) return std::nullopt;
  for (const contract::Dim& dim : contract_.dims)
    if (dim.name == largest->first) largest->second = trial::snap(dim, largest->second / kGiantStep);
  const auto size = trial::size_of(contract_, trial.shape), part = trial::size_of(contract_, smaller.shape);
  if (!contract_.check_shape(smaller.shape) || !size || !part || part->elements <= 0) return std::nullopt;
  const double longest = kGiantSlower * size->elements / part->elements;  // times what the part takes
  double seconds = 0;
  const auto part_ends = [&] {
    const Observation observation = run_giant(smaller);
    seconds = std::max(kLeastGiantSeconds, observation.seconds);
    return observation.outcome == CallOutcome::Ended && longest * seconds < kSampledTrialSeconds;
  };
  if (!part_ends() || run_giant(trial).outcome != CallOutcome::TimedOut || !part_ends()) return std::nullopt;
  Finding finding = unended(seen, subject_.symbol);
  std::get<evidence::Process>(finding.evidence).smaller =
      fmt::format("{} ends after {:.2g} s", contract::to_string(smaller.shape), seconds);
  return finding;
}

void TrialRunner::run_sampled(const Trial& trial, TrialResult& result) {
  runner_.set_sample_seconds(kSampleSeconds);
  if (!sample_once(trial, kSampleSeconds, result) || !long_samples_ || long_sampled_) return;
  long_sampled_ = true;
  runner_.set_sample_seconds(kLongSampleSeconds);
  result = TrialResult{};
  sample_once(trial, kLongSampleSeconds, result);
}

// True: no block came to its end in time.
bool TrialRunner::sample_once(const Trial& trial, double seconds, TrialResult& result) {
  const auto unsampled = [&](std::string why) {
    result.state = TrialState::Unsampled;
    result.problem = std::move(why);
    result.findings.clear();
    return false;
  };
  auto inputs = trial::GeneratedInputs::make(contract_, trial);
  if (!inputs) return unsampled(inputs.error().text());
  runner_.set_timeout(stage_ ? time_limit() : kSampledTrialSeconds + 2 * seconds);
  if (trial.condition.fresh) runner_.restart();
  const Observation observation = runner_.run(trial, inputs->bindings());
  note_use(observation);
  result.turn_seconds += observation.turn_seconds;
  note_launches(trial, observation);
  Seen seen = seen_by_device(contract_, subject_, trial, observation);
  if (!seen.unsupported.empty()) return unsampled(std::move(seen.unsupported));
  result.findings = std::move(seen.findings);
  result.warnings = std::move(seen.host_warnings);
  result.call_seconds = observation.limited_seconds;
  if (has_error(result.findings)) return false;
  const SampleReport* report = observation.sample ? &*observation.sample : nullptr;
  if (report && !report->ended.empty()) return unsampled(report->ended);
  switch (observation.outcome) {
    case CallOutcome::Ended:
      break;
    case CallOutcome::DeviceError:
      if (observation.error_code != kOutOfMemory) break;
      return unsampled("there is not enough device memory");
    case CallOutcome::Unavailable:
      break;
    case CallOutcome::NoDeviceMemory:
      return unsampled("there is not enough device memory");
    case CallOutcome::TimedOut:
      if (auto finding = giant_unended(trial, observation)) {
        result.findings = {std::move(*finding)};
        result.is_smallest = true;
        return false;
      }
      return unsampled(observation.error);
    default:  // time and memory on the host, which the contract does not promise
      return unsampled(observation.error);
  }
  const bool out_of_memory =
      std::any_of(observation.calls.begin(), observation.calls.end(),
                  [](const subject::Call& call) { return call.returned == kOutOfMemory; });
  if (out_of_memory) return unsampled("there is not enough device memory");
  read_outcome(trial, observation, result);
  if (!report || observation.calls.empty() || result.state != TrialState::Judged ||
      has_error(result.findings))
    return false;
  for (const SampledLaunch& launch : report->launches) {
    if (launch.endless) {
      result.findings.push_back(endless(launch, subject_.symbol));
      return false;
    }
  }
  for (const SampledLaunch& launch : report->launches) {
    result.sampled.blocks += launch.blocks;
    result.sampled.run += launch.run;
    if (launch.run > 0 || launch.blocks == 0) continue;
    unsampled(
        fmt::format("no block of {} finished within {:.2g} s; only its accesses up to then were checked",
                    plain_name(launch.kernel), 2 * seconds));
    return true;
  }
  const subject::Call& call = observation.calls.front();
  for (const auto& [name, tensor] : call.outputs) result.elements += tensor->count();
  result.wider_budgets = tensor_cores_.reasons(observation.kernels);
  judge_written(trial, *report, call, *inputs, result);
  if (!has_error(result.findings)) judge_coverage(trial, *report, call, *inputs, result);
  return false;
}

}  // namespace assay::assayer
