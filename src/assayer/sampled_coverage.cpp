// Of a trial of which some blocks of each grid were run: whether all blocks together write everything.
//
//   too little   what the blocks wrote that were run, and w elements for each of the others, are less than all: blocks
//                that should have written did not, or the grid is too small
//   twice        blocks wrote elements that others wrote as well, so many that the rest cannot be written any more
//   missing      all blocks were run after all, and an element was not written
//   not by its   small shapes, run whole, show which block writes what (ownership.h); a block that was run wrote less than
//   owner        its own, or the grid does not have the block; confirmed by running that block, those beside it and other
//                random ones
//   a gap        a twelfth of the output has not one element that was written, by blocks and iterations from all over
//                the grid; confirmed by other random ones until chance is no explanation
//
// The first two rest on w, the most that a block wrote of those that were run: both ends of the grid, its corners,
// where 32 bits end, and random ones. Fewer than kEnoughBlocks say nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assayer/limits.h"
#include "assayer/ownership.h"
#include "assayer/trial_runner.h"
#include "base/random.h"
#include "trial/generated_inputs.h"
#include "trial/shapes.h"

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

// On a device that has run all blocks: a place that was read back.
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

// Random blocks of a sample, as many as they would be if all blocks wrote the same number of elements. A gap of G
// elements takes at least G / w blocks, where w is the most that one writes; where many blocks write less, or nothing, fewer
// of those that are drawn at random could be among them.
double random_places(const SampleReport& report, const TensorSpec& output, int64_t elements) {
  double least = HUGE_VAL, room = 0;
  for (const SampledLaunch& launch : report.launches) {
    least = std::min(least, std::max(0.0, static_cast<double>(launch.run) - kChosenBlocks));
    for (const SampledWrites& writes : launch.writes)
      if (writes.buffer == output.name)
        room += static_cast<double>(launch.blocks) * static_cast<double>(writes.most);
  }
  if (report.launches.empty() || room == 0) return 0;
  const double all = static_cast<double>(elements) * contract::info(output.dtype).bytes;
  return least * std::min(1.0, all / room);
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

// ---- Owners

// Small shapes that are run whole to see which block writes what: one dim longer than the others, each in turn, so that it
// has several tiles; elements of all tensors, and blocks of a launch. Chosen: three usual tiles of 256, and some
// hundredths of a second.
constexpr int64_t kLearntLength = 777, kBesideLearnt = 45, kAllLearnt = 150;
constexpr double kLearntElements = 1 << 17;
constexpr uint64_t kLearntBlocks = 4096;
// Blocks beside a block that wrote less than its own, on each axis, that are run as well.
constexpr int64_t kNeighbours = 1;
constexpr uint64_t kOwnerStream = 77;  // of the random blocks that confirm it

const SampledLaunch* only_writer(const SampleReport& report, const std::string& output) {
  const SampledLaunch* found = nullptr;
  for (const SampledLaunch& launch : report.launches)
    for (const SampledWrites& writes : launch.writes) {
      if (writes.buffer != output) continue;
      if (found) return nullptr;
      found = &launch;
    }
  return found;
}

std::optional<LaunchWrites> writes_to(const SampleReport& report, const TensorSpec& output,
                                      const std::vector<int64_t>& extents) {
  const SampledLaunch* launch = only_writer(report, output.name);
  if (!launch || !output.strides.empty()) return std::nullopt;
  return writes_of(*launch, output.name, extents, contract::info(output.dtype).bytes);
}

// Blocks that might have written what the owner did not.
std::vector<uint64_t> about(const LaunchWrites& writes, const Ownership::Missing& missing) {
  std::vector<uint64_t> blocks;
  if (!missing.owner) return blocks;
  const auto& grid = writes.grid;
  const auto owner = static_cast<int64_t>(*missing.owner);
  const std::array<int64_t, 3> at = {owner % grid[0], owner / grid[0] % grid[1], owner / grid[0] / grid[1]};
  blocks.push_back(*missing.owner);
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (int64_t step = -kNeighbours; step <= kNeighbours; ++step) {
      std::array<int64_t, 3> other = at;
      other[axis] += step;
      if (step == 0 || other[axis] < 0 || other[axis] >= grid[axis]) continue;
      blocks.push_back(static_cast<uint64_t>(other[0] + grid[0] * (other[1] + grid[1] * other[2])));
    }
  return blocks;
}

}  // namespace

// Runs a few small shapes whole, once.
const Ownership& TrialRunner::ownership_of(const Trial& giant, const TensorSpec& output) {
  if (!learnt_) {
    learnt_.emplace();
    std::map<std::string, std::vector<LaunchWrites>> seen;
    std::vector<contract::Shape> shapes = {trial::uniform_shape(contract_, kAllLearnt)};
    for (const contract::Dim& dim : contract_.dims) {
      if (dim.is_constant()) continue;
      shapes.push_back(trial::uniform_shape(contract_, kBesideLearnt));
      shapes.back()[dim.name] = trial::snap(dim, kLearntLength);
    }
    runner_.set_sample_blocks(kLearntBlocks);
    bool whole = true;
    for (const contract::Shape& shape : shapes) {
      Trial small = giant;
      small.shape =
          trial::fit(contract_, trial::near_legal(contract_, shape), kLearntElements, HUGE_VAL).shape;
      const auto inputs = trial::GeneratedInputs::make(contract_, small);
      if (!inputs) continue;
      const Observation observed = runner_.run(small, inputs->bindings());
      const SampleReport* report = observed.sample ? &*observed.sample : nullptr;
      whole &= observed.outcome == CallOutcome::Ended && report && report->ended.empty();
      for (const SampledLaunch& launch : report ? report->launches : std::vector<SampledLaunch>())
        whole &= launch.run == launch.blocks && launch.left_out == 0;
      if (!whole) break;
      for (const TensorSpec* spec : contract_.outputs())
        if (const auto extents = spec->extents(small.shape)) {
          auto writes = writes_to(*report, *spec, *extents);
          if (writes) seen[spec->name].push_back(std::move(*writes));
        }
    }
    runner_.set_sample_blocks(subject::kSampledBlocks);
    for (auto& [name, writes] : seen)
      if (whole && writes.size() == shapes.size()) (*learnt_)[name] = Ownership::learn(writes);
  }
  return (*learnt_)[output.name];
}

// What the block that owns it did not write, or a block that the grid does not have; count 0: nothing, or no rule tells.
ElementRange TrialRunner::confirmed_unowned(const Trial& trial, const SampleReport& report,
                                            const TensorSpec& output, const std::vector<int64_t>& extents,
                                            const std::vector<ElementRange>& written) {
  std::optional<LaunchWrites> writes = writes_to(report, output, extents);
  if (!writes) return {};
  const Ownership& ownership = ownership_of(trial, output);
  if (ownership.empty()) return {};
  auto missing = ownership.missing(*writes);
  if (!missing) return {};
  Trial other = trial;
  other.seed = mix(trial.seed, kOwnerStream);
  auto inputs = trial::GeneratedInputs::make(contract_, other);
  if (!inputs) return {};
  runner_.set_sample_blocks(subject::kSampledBlocks, about(*writes, *missing));
  const Observation seen = runner_.run(other, inputs->bindings());
  runner_.set_sample_blocks(subject::kSampledBlocks);
  if (seen.outcome != CallOutcome::Ended || !seen.sample || !seen.sample->ended.empty() || seen.calls.empty())
    return {};
  const std::optional<LaunchWrites> more = writes_to(*seen.sample, output, extents);
  if (!more || more->grid != writes->grid) return {};
  writes->blocks.insert(more->blocks.begin(), more->blocks.end());
  missing = ownership.missing(*writes);
  const auto again = seen.calls.front().written.find(output.name);
  if (!missing || is_written(written, missing->element) ||
      (again != seen.calls.front().written.end() && is_written(again->second, missing->element)))
    return {};
  return {missing->element, missing->count};
}

// A stretch of an output that no sample reaches; count 0: there is none, or chance may be why.
ElementRange TrialRunner::confirmed_gap(const Trial& trial, const SampleReport& report,
                                        const TensorSpec& output, std::vector<ElementRange> written,
                                        int64_t elements) {
  const auto is_wide = [&](const ElementRange& gap) { return gap.count > elements / kGapShare; };
  ElementRange gap = longest_gap(written, elements);
  double places = random_places(report, output, elements);
  // Where blocks are so slow that all samples together would not be enough, none is made.
  if (places * (1 + kMostGapSamples * kGapSeconds / kSampleSeconds) < kEnoughPlaces) return {};
  if (is_wide(gap)) runner_.set_sample_seconds(kGapSeconds);
  for (int i = 0; is_wide(gap) && places < kEnoughPlaces; ++i) {
    if (i == kMostGapSamples) return {};
    Trial other = trial;
    other.seed = mix(trial.seed, static_cast<uint64_t>(i) + 1);
    auto inputs = trial::GeneratedInputs::make(contract_, other);
    if (!inputs) return {};
    const Observation seen = runner_.run(other, inputs->bindings());
    if (seen.outcome != CallOutcome::Ended || !seen.sample || !seen.sample->ended.empty() ||
        seen.calls.empty())
      return {};
    const auto more = seen.calls.front().written.find(output.name);
    if (more == seen.calls.front().written.end()) return {};
    merge(written, more->second);
    places += random_places(*seen.sample, output, elements);
    gap = longest_gap(written, elements);
  }
  return is_wide(gap) ? gap : ElementRange{};
}

// An output of which elements are missing, where the formula says what they should be.
void TrialRunner::judge_coverage(const Trial& trial, const SampleReport& report, const subject::Call& call,
                                 trial::GeneratedInputs& inputs, TrialResult& result) {
  for (const TensorSpec* spec : contract_.outputs()) {
    const auto written = call.written.find(spec->name);
    const auto extents = spec->extents(trial.shape);
    if (spec->role != contract::Role::Out || written == call.written.end() || !extents) continue;
    if (std::find(report.reduced.begin(), report.reduced.end(), spec->name) != report.reduced.end()) continue;
    int64_t count = 1;
    for (const int64_t extent : *extents) count *= extent;
    auto missing = missing_of(*spec, count, report, written->second);
    if (!missing && !report.all_run)
      if (const ElementRange unowned = confirmed_unowned(trial, report, *spec, *extents, written->second);
          unowned.count > 0)
        missing = Missing{unowned.count, unowned.first, false};
    if (!missing && !report.all_run)
      if (const ElementRange gap = confirmed_gap(trial, report, *spec, written->second, count); gap.count > 0)
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

}  // namespace assay::assayer
