// Whether a failure needs the surroundings that its trial had: the GPU, the time of day, inputs at one
// address. What a kernel computes may depend on none of them.
#include <fmt/format.h>

#include "assayer/trial_runner.h"

namespace assay::assayer {

using trial::Trial;

namespace {

std::string inputs_at_one_address(const contract::Contract& contract, const contract::Shape& shape) {
  for (const contract::TensorSpec& spec : contract.tensors) {
    const contract::TensorSpec& owner = trial::shared_input(contract, spec, shape);
    if (&owner != &spec) return fmt::format("{} and {}", owner.name, spec.name);
  }
  return "inputs";
}

}  // namespace

std::string TrialRunner::needed_surroundings(const Trial& failing) {
  const auto with = [&](auto change) {
    Trial changed = failing;
    change(changed.condition);
    return passes(changed);
  };
  const trial::Condition& condition = failing.condition;
  if (condition.gpu != 0 && with([](trial::Condition& c) { c.gpu = 0; }))
    return fmt::format("correct on {}, wrong on {}", trial::describe(kGpus[0]),
                       trial::describe(kGpus[condition.gpu]));
  if (condition.clock != 0 && with([](trial::Condition& c) { c.clock = 0; }))
    return fmt::format("correct at the present time, wrong when the clock shows {}",
                       trial::date(condition.clock));
  if (condition.shared_inputs && with([](trial::Condition& c) { c.shared_inputs = false; }))
    return fmt::format("correct when inputs have separate memory, wrong when {} share one address",
                       inputs_at_one_address(contract_, failing.shape));
  if (condition.alignment != 0 && with([](trial::Condition& c) { c.alignment = 0; }))
    return "correct with exactly the alignment that the contract promises, wrong when some tensors are "
           "aligned to more";
  return "";
}

}  // namespace assay::assayer
