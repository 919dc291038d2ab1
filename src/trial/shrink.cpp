#include "trial/shrink.h"

#include <vector>

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
    if (spent()) return false;
    ++best_.attempts;
    if (!contract_.check_shape(candidate.shape) || !still_fails_(candidate)) return false;
    best_.trial = std::move(candidate);
    return true;
  }

  // The lowest value, else by halves toward it, else one step: at most a few attempts a round.
  bool reduce(const Dim& dim) {
    bool progress = false;
    const int64_t low = dim.lowest();
    for (int64_t gap = best_.trial.shape[dim.name] - low; gap > 0 && !spent();) {
      const int64_t now = best_.trial.shape[dim.name];
      Trial candidate = best_.trial;
      candidate.shape[dim.name] = snap(dim, now - gap);
      if (candidate.shape[dim.name] == now) break;
      if (attempt(std::move(candidate))) {
        progress = true;
        gap = std::min(gap, best_.trial.shape[dim.name] - low);
      } else {
        gap /= gap > 64 ? 4 : 2;
      }
    }
    return progress;
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
    return progress;
  }

  void simplify_condition() {
    Trial plain = best_.trial;
    plain.condition = {};
    plain.condition.aliased = best_.trial.condition.aliased;
    plain.condition.others_late = best_.trial.condition.others_late;
    plain.condition.fresh = best_.trial.condition.fresh;
    plain.condition.warmed = best_.trial.condition.warmed;
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

  const Contract& contract_;
  Shrunk best_;
  const StillFails& still_fails_;
  int max_;
};

}  // namespace

Shrunk shrink(const Contract& contract, Trial trial, const StillFails& still_fails, int max_attempts) {
  return Search(contract, std::move(trial), still_fails, max_attempts).run();
}

}  // namespace assay::trial
