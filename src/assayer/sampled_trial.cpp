// A trial of which some blocks of each grid are run: what they write is judged, and whether all blocks together write
// everything is inferred from how much these do.
//
// Of outputs, three things can be said without having run all blocks:
//
//   too little   what the blocks wrote that were run, and w elements for each of the others, are less than all: blocks
//                that should have written did not, or the grid is too small
//   twice        blocks wrote elements that others wrote as well, so many that the rest cannot be written any more
//   missing      all blocks were run after all, and an element was not written
//   a gap        a twelfth of the output has not one element that was written, by blocks and iterations from all over
//                the grid; confirmed by other random ones until chance is no explanation
//
// The first two rest on w, the most that a block wrote of those that were run: both ends of the grid, its corners,
// where 32 bits end, and random ones. Fewer than kEnoughBlocks say nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assayer/limits.h"
#include "assayer/seen.h"
#include "assayer/trial_runner.h"
#include "base/random.h"
#include "base/symbol.h"
#include "trial/made_inputs.h"

namespace assay::assayer {

using contract::TensorSpec;
using protocol::SampledLaunch;
using protocol::SampledWrites;
using protocol::SampleReport;
using subject::CallOutcome;
using subject::ElementRange;
using subject::Observation;
using trial::Trial;

namespace {

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation

// What was not written of an output; none: nothing can be said.
struct Missing {
  int64_t count = 0;     // at least
  int64_t element = 0;   // one of them
  bool exactly = false;  // all blocks were run
};

bool is_written(const std::vector<ElementRange>& written, int64_t element) {
  const auto after = std::upper_bound(written.begin(), written.end(), element,
                                      [](int64_t e, const ElementRange& range) { return e < range.first; });
  return after != written.begin() && element < std::prev(after)->first + std::prev(after)->count;
}

int64_t first_unwritten(const std::vector<ElementRange>& written) {
  int64_t next = 0;
  for (const ElementRange& range : written) {
    if (range.first > next) break;
    next = std::max(next, range.first + range.count);
  }
  return next;
}

// On a device that has run all blocks: a place that somebody looked at.
std::optional<Missing> missing_place(const TensorSpec& output, int64_t elements, const SampleReport& report) {
  std::optional<Missing> missing;
  for (const protocol::UnwrittenPlace& place : report.unwritten) {
    const auto element = static_cast<int64_t>(place.offset) / contract::info(output.dtype).bytes;
    if (place.buffer != output.name || element >= elements) continue;
    if (!missing) missing = Missing{.element = element};
    ++missing->count;
  }
  return missing;
}

std::optional<Missing> missing_of(const TensorSpec& output, int64_t elements, const SampleReport& report,
                                  const std::vector<ElementRange>& written) {
  if (report.all_run) return missing_place(output, elements, report);
  const double item = contract::info(output.dtype).bytes;
  const double all = static_cast<double>(elements) * item;  // bytes
  double reach = 0, twice = 0;
  bool whole = true;
  int writers = 0;
  for (const SampledLaunch& launch : report.launches) {
    whole &= launch.run == launch.blocks && launch.left_out == 0;
    if (launch.run < std::min(launch.blocks, kEnoughBlocks)) return std::nullopt;
    for (const SampledWrites& writes : launch.writes) {
      if (writes.buffer != output.name) continue;
      ++writers;
      reach += static_cast<double>(launch.blocks - launch.run) * static_cast<double>(writes.most) +
               static_cast<double>(writes.whole);
      twice += static_cast<double>(writes.sum - writes.distinct);
    }
  }
  if (whole) {
    int64_t count = elements;
    for (const ElementRange& range : written) count -= range.count;
    if (count <= 0) return std::nullopt;
    return Missing{count, first_unwritten(written), true};
  }
  // Several launches may write the same elements on purpose.
  const double lacking = reach < all ? all - reach : writers == 1 ? twice - (reach - all) : 0;
  const auto count = static_cast<int64_t>(lacking / item);
  if (count <= 0) return std::nullopt;
  // The last block was run: what belongs to it as a rule names the place best.
  const int64_t element = is_written(written, elements - 1) ? first_unwritten(written) : elements - 1;
  return element < elements ? std::optional(Missing{count, element, false}) : std::nullopt;
}

// ---- Gaps

constexpr int64_t kGapShare = 12;   // parts of an output of which one without a written element is a gap
constexpr int kMostGapSamples = 8;  // that are made to confirm one,
constexpr double kGapSeconds = 1;   // each with so much time for its blocks, so that all of them are run
// Random places that must have missed a gap: (11/12)^190 is less than one in ten million.
constexpr double kEnoughPlaces = 190;
// Blocks of a sample that are chosen for where they are; the others are random.
constexpr double kChosenBlocks = 40;

double random_places(const SampleReport& report) {
  double least = HUGE_VAL;
  for (const SampledLaunch& launch : report.launches) {
    least = std::min(least, std::max(0.0, static_cast<double>(launch.run) - kChosenBlocks));
  }
  return report.launches.empty() ? 0 : least;
}

void merge(std::vector<ElementRange>& all, const std::vector<ElementRange>& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end(),
            [](const ElementRange& a, const ElementRange& b) { return a.first < b.first; });
}

// The longest stretch of which nothing is written; `written` is in order.
ElementRange longest_gap(const std::vector<ElementRange>& written, int64_t elements) {
  ElementRange longest{0, 0};
  int64_t next = 0;
  const auto end_at = [&](int64_t first) {
    if (first - next > longest.count) longest = {next, first - next};
  };
  for (const ElementRange& range : written) {
    end_at(range.first);
    next = std::max(next, range.first + range.count);
  }
  end_at(elements);
  return longest;
}

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
  process.limit =
      launch.endless->wraps
          ? "a count of 32 bits wraps before this loop reaches its end, so that it goes on for ever"
          : "what this loop counts does not grow towards its end";
  Finding finding{.kind = Kind::Timeout};
  if (launch.endless->line > 0) {
    finding.where = {shown(launch.endless->file), launch.endless->line};
    process.standing.push_back(finding.where);
  }
  finding.evidence = std::move(process);
  return finding;
}

}  // namespace

// A stretch of an output that no sample reaches; count 0: there is none, or chance may be why.
ElementRange TrialRunner::confirmed_gap(const Trial& trial, const SampleReport& report,
                                        const std::string& name, std::vector<ElementRange> written,
                                        int64_t elements) {
  const auto is_wide = [&](const ElementRange& gap) { return gap.count > elements / kGapShare; };
  ElementRange gap = longest_gap(written, elements);
  double places = random_places(report);
  if (is_wide(gap)) runner_.set_sample_seconds(kGapSeconds);
  for (int i = 0; is_wide(gap) && places < kEnoughPlaces; ++i) {
    if (i == kMostGapSamples) return {};
    Trial other = trial;
    other.seed = mix(trial.seed, static_cast<uint64_t>(i) + 1);
    auto inputs = trial::MadeInputs::make(contract_, other);
    if (!inputs) return {};
    const Observation seen = runner_.run(other, inputs->bindings());
    if (seen.outcome != CallOutcome::Ended || !seen.sample || !seen.sample->ended.empty() ||
        seen.calls.empty())
      return {};
    const auto more = seen.calls.front().written.find(name);
    if (more == seen.calls.front().written.end()) return {};
    merge(written, more->second);
    places += random_places(*seen.sample);
    gap = longest_gap(written, elements);
  }
  return is_wide(gap) ? gap : ElementRange{};
}

// An output of which elements are missing, where the formula says what they should be.
void TrialRunner::judge_coverage(const Trial& trial, const SampleReport& report, const subject::Call& call,
                                 trial::MadeInputs& inputs, TrialResult& result) {
  for (const TensorSpec* spec : contract_.outputs()) {
    const auto written = call.written.find(spec->name);
    const auto extents = spec->extents(trial.shape);
    if (spec->role != contract::Role::Out || written == call.written.end() || !extents) continue;
    if (std::find(report.reduced.begin(), report.reduced.end(), spec->name) != report.reduced.end()) continue;
    int64_t count = 1;
    for (const int64_t extent : *extents) count *= extent;
    auto missing = missing_of(*spec, count, report, written->second);
    if (!missing && !report.all_run)
      if (const ElementRange gap = confirmed_gap(trial, report, spec->name, written->second, count);
          gap.count > 0)
        missing = Missing{gap.count, gap.first + gap.count / 2, false};
    if (!missing) continue;
    if (reference_.is_formula()) {
      reference::BudgetOptions budget{.threads = 1};
      budget.on_read = [&](const std::string& name, std::span<const int64_t> reads) {
        return inputs.make_read(name, reads);
      };
      const auto expected =
          reference_.expect(inputs.bindings(), spec->name, std::array{missing->element}, budget);
      if (!expected || (expected->flags[0] & reference::kUnspecified)) continue;
    }
    evidence::Access access;
    access.unwritten = evidence::Unwritten{.name = spec->name,
                                           .count = static_cast<uint64_t>(missing->count),
                                           .total = static_cast<uint64_t>(count),
                                           .first = contract::coordinates(*extents, missing->element),
                                           .at_least = !missing->exactly};
    result.findings.push_back({.kind = Kind::UnwrittenOutput, .evidence = std::move(access)});
  }
}

void TrialRunner::judge_written(const SampleReport& report, const subject::Call& call,
                                trial::MadeInputs& inputs, TrialResult& result) {
  if (!reference_.is_formula()) return;
  for (const auto& [name, written] : call.written) {
    if (std::find(report.reduced.begin(), report.reduced.end(), name) != report.reduced.end()) continue;
    judge::Options options;
    options.tensor_cores = !result.wider_budgets.empty();
    options.diagnose = false;
    options.threads = 1;
    options.max_elements = kSampledElements;
    options.elements[name] = elements_of(written, kSampledElements);
    options.on_read = [&](const std::string& input, std::span<const int64_t> reads) {
      return inputs.make_read(input, reads);
    };
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
  auto inputs = trial::MadeInputs::make(contract_, trial);
  if (!inputs) return unsampled(inputs.error().text());
  runner_.set_timeout(stage_ ? time_limit() : kSampledTrialSeconds + 2 * seconds);
  if (trial.condition.fresh) runner_.restart();
  const Observation observation = runner_.run(trial, inputs->bindings());
  note_launches(trial, observation);
  Seen seen = seen_by_device(contract_, subject_, trial, observation);
  if (!seen.unsupported.empty()) return unsampled(std::move(seen.unsupported));
  result.findings = std::move(seen.findings);
  result.warnings = std::move(seen.host_warnings);
  result.call_seconds = observation.seconds;
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
    default:  // time and memory on the host, which nobody promised
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
        fmt::format("no block of {} came to its end within {:.2g} s; its accesses until then were checked",
                    plain_name(launch.kernel), 2 * seconds));
    return true;
  }
  const subject::Call& call = observation.calls.front();
  for (const auto& [name, tensor] : call.outputs) result.elements += tensor->count();
  result.wider_budgets = tensor_cores_.reasons(observation.kernels);
  judge_written(*report, call, *inputs, result);
  if (!has_error(result.findings)) judge_coverage(trial, *report, call, *inputs, result);
  return false;
}

}  // namespace assay::assayer
