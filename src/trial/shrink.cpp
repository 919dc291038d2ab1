#include "trial/shrink.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "contract/legal_shape.h"
#include "trial/shapes.h"

namespace assay::trial {

using contract::Contract;
using contract::Dim;

namespace {

class Search {
 public:
  Search(const Contract& contract, Trial trial, const StillFails& still_fails, int max_attempts)
      : contract_(contract), best_{std::move(trial), 0}, still_fails_(still_fails), max_(max_attempts) {}

  Shrunk run() {
    simplify_condition();
    cap();
    for (bool progress = true; progress && !spent();) {
      progress = false;
      for (const Dim& dim : contract_.dims) progress |= reduce(dim);
      progress |= simplify_inputs();
    }
    return best_;
  }

 private:
  bool spent() const { return best_.attempts >= max_; }

  bool attempt(Trial candidate) {
    if (spent() || !tried_.insert(to_json(candidate).dump()).second) return false;
    ++best_.attempts;
    if (!contract_.check_shape(candidate.shape) || !still_fails_(candidate)) return false;
    best_.trial = std::move(candidate);
    return true;
  }

  // All dims at once, from below, where attempts cost little: the least that none need exceed.
  void cap() {
    int64_t largest = 0;
    for (const auto& [name, value] : best_.trial.shape) largest = std::max(largest, value);
    for (int64_t most = 1; most < largest && !spent(); most *= 2) {
      Trial candidate = best_.trial;
      for (const Dim& dim : contract_.dims) {
        int64_t& value = candidate.shape[dim.name];
        value = std::min(value, snap(dim, most));
      }
      if (candidate.shape != best_.trial.shape && attempt(std::move(candidate))) return;
    }
  }

  // From below again; then what lies between the last that passes and the first that fails, by halves.
  bool reduce(const Dim& dim) {
    const int64_t now = best_.trial.shape[dim.name];
    int64_t passes = dim.lowest() - dim.multiple_of;
    for (const int64_t value : steps_to(dim, now)) {
      if (spent()) return false;
      if (attempt_at(dim, value)) {
        narrow(dim, passes);
        return true;
      }
      passes = value;
    }
    narrow(dim, passes);
    return best_.trial.shape[dim.name] < now;
  }

  bool attempt_at(const Dim& dim, int64_t value) {
    Trial candidate = best_.trial;
    candidate.shape[dim.name] = value;
    // Dims that relations tie to this one follow it, but only down.
    const std::optional<contract::Shape> legal = contract::legal_shape(contract_, candidate.shape, dim.name);
    const auto grows = [&](const auto& one) { return one.second > best_.trial.shape.at(one.first); };
    if (!legal || std::any_of(legal->begin(), legal->end(), grows)) return false;
    candidate.shape = *legal;
    return attempt(std::move(candidate));
  }

  void narrow(const Dim& dim, int64_t passes) {
    while (best_.trial.shape[dim.name] - passes > dim.multiple_of && !spent()) {
      const int64_t middle = snap(dim, passes + (best_.trial.shape[dim.name] - passes) / 2);
      if (middle <= passes || !attempt_at(dim, middle)) {
        passes = std::max(middle, passes + dim.multiple_of);
      }
    }
  }

  // The lowest, and then twice as much each time, with a neighbour: tails hide beside round numbers.
  static std::vector<int64_t> steps_to(const Dim& dim, int64_t now) {
    std::vector<int64_t> values;
    const auto add = [&](int64_t value) {
      value = snap(dim, value);
      if (value < now && (values.empty() || value > values.back())) values.push_back(value);
    };
    add(dim.lowest());
    add(dim.lowest() + dim.multiple_of);
    for (int64_t round = 1; round < now; round *= 2) {
      add(round);
      if (snap(dim, round) < now) add(snap(dim, round) + dim.multiple_of);
    }
    return values;
  }

  bool simplify_inputs() {
    bool progress = false;
    const auto families = best_.trial.families;
    for (const auto& [name, family] : families) {
      if (family == Family::Natural) continue;
      Trial candidate = best_.trial;
      candidate.families[name] = Family::Natural;
      progress |= attempt(std::move(candidate));
    }
    return simplify_runs() || progress;
  }

  // None; or one size throughout.
  bool simplify_runs() {
    bool progress = false;
    const auto runs = best_.trial.runs;
    for (const auto& [name, sizes] : runs) {
      Trial without = best_.trial;
      without.runs.erase(name);
      if (attempt(std::move(without))) {
        progress = true;
        continue;
      }
      for (std::size_t i = 0; sizes.size() > 1 && i < sizes.size(); ++i) {
        Trial alone = best_.trial;
        alone.runs[name] = {sizes[i]};
        if (!attempt(std::move(alone))) continue;
        progress = true;
        break;
      }
    }
    return progress;
  }

  // To no more than what is promised; else to the same for all tensors.
  void simplify_alignment() {
    for (const uint64_t simple : {uint64_t{0}, kWellAligned}) {
      if (best_.trial.condition.alignment <= simple) return;
      Trial candidate = best_.trial;
      candidate.condition.alignment = simple;
      attempt(std::move(candidate));
    }
  }

  void simplify_condition() {
    simplify_alignment();
    Trial plain = best_.trial;
    plain.condition = {.ordered = !best_.trial.sampled};
    plain.condition.aliased = best_.trial.condition.aliased;
    plain.condition.others_late = best_.trial.condition.others_late;
    plain.condition.fresh = best_.trial.condition.fresh;
    plain.condition.warmed = best_.trial.condition.warmed;
    plain.condition.grown = best_.trial.condition.grown;
    plain.condition.shared_inputs = best_.trial.condition.shared_inputs;
    plain.condition.looped = best_.trial.condition.looped;
    plain.condition.alignment = best_.trial.condition.alignment;
    if (attempt(plain)) return;
    simplify_machine();
    plain.condition.gpu = best_.trial.condition.gpu;
    plain.condition.clock = best_.trial.condition.clock;
    if (attempt(std::move(plain))) return;
    for (bool Condition::*member : {&Condition::repeated, &Condition::overlapped, &Condition::moved}) {
      if (!(best_.trial.condition.*member)) continue;
      Trial candidate = best_.trial;
      candidate.condition.*member = false;
      attempt(std::move(candidate));
    }
    if (best_.trial.condition.schedule != 0) {
      Trial candidate = best_.trial;
      candidate.condition.schedule = 0;
      attempt(std::move(candidate));
    }
  }

  void simplify_machine() {
    Trial usual = best_.trial;
    usual.condition.gpu = 0;
    attempt(std::move(usual));
    Trial now = best_.trial;
    now.condition.clock = 0;
    attempt(std::move(now));
  }

  const Contract& contract_;
  Shrunk best_;
  const StillFails& still_fails_;
  int max_;
  std::set<std::string> tried_;
};

}  // namespace

Shrunk shrink(const Contract& contract, Trial trial, const StillFails& still_fails, int max_attempts) {
  return Search(contract, std::move(trial), still_fails, max_attempts).run();
}

}  // namespace assay::trial
