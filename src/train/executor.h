// How one run computes its operators: by trusted code, or one of them by a candidate.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "train/operators.h"

namespace assay::train {

// What a run does about the slot under test.
struct RunRole {
  Arithmetic arithmetic;
  const Candidate* candidate = nullptr;  // whose slot and dtypes count; null: no slot is special
  bool calls_candidate =
      false;  // otherwise trusted code computes the slot, rounding to the candidate's dtypes
  // Told of the inputs of every call that the candidate could take, in the slot's names and the candidate's dtypes; trusted code computes.
  std::function<void(std::string_view site, const contract::Bindings&)> on_call;
};

struct CallCount {
  int64_t calls = 0;
  double seconds = 0;
  std::set<std::string> sites, refused;  // of the candidate's slot

  void add(const CallCount& other) {
    calls += other.calls;
    seconds += other.seconds;
    sites.insert(other.sites.begin(), other.sites.end());
    refused.insert(other.refused.begin(), other.refused.end());
  }
};

template <class Real>
class Executor {
 public:
  Executor(Team& team, const RunRole& role) : team_(team), role_(role) {}

  // Computes the outputs of one operator. `site`: where in the model it stands, for reports.
  void apply(std::string_view slot, std::string_view site, Operands<Real> operands);
  // sum = a + b, rounded to bf16 where the run rounds: what stands between operators.
  void add(const Array<Real>& a, const Array<Real>& b, Array<Real>& sum);
  // The working copy of a weight.
  void copy_weight(const std::vector<Real>& weight, DType dtype, Array<Real>& copy);

  Team& team() { return team_; }
  const Arithmetic& arithmetic() const { return role_.arithmetic; }
  bool is_slot(std::string_view slot) const { return role_.candidate && role_.candidate->slot->name == slot; }
  // A call that failed; trusted code has computed the result in its place. Its findings say at which site.
  const std::optional<CallFailure>& failure() const { return failure_; }
  const CallCount& count() const { return count_; }

 private:
  void compute_slot(const Slot& slot, Operands<Real>& operands);
  contract::Bindings bindings_of(const Slot& slot, const Operands<Real>& operands) const;
  void call(const Slot& slot, std::string_view site, Operands<Real>& operands);

  Team& team_;
  RunRole role_;
  std::optional<CallFailure> failure_;
  CallCount count_;
  uint64_t applied_ = 0;  // so that each call rounds by chances of its own
};

}  // namespace assay::train
