// What is said of training runs.
#include <fmt/format.h>

#include <cmath>

#include "finding/message_parts.h"

namespace assay {

namespace {

// "at the reference run's weights (zipf tokens, sgd, step 3)", "with zipf tokens and sgd (step 17)".
std::string training_place(const evidence::Training& e) {
  if (e.teacher_forced)
    return fmt::format("at the reference run's weights ({} tokens, {}, step {})", e.tokens, e.optimizer,
                       e.step);
  return fmt::format("with {} tokens and {} (step {})", e.tokens, e.optimizer, e.step);
}

std::string gradient_name(const evidence::Training& e) {
  return fmt::format("the gradient of the {}{}", e.tensor,
                     e.part.empty() ? "" : fmt::format(" ({})", e.part));
}

// "; for a correct kernel, the probability of this is at most 1e-06".
std::string odds_text(const evidence::Training& e) {
  return e.false_alarms > 0 ? fmt::format("; for a correct kernel, the probability of this is at most {:.0e}",
                                          e.false_alarms)
                            : "";
}

}  // namespace

std::string training_text(Kind kind, const evidence::Training& e) {
  if (kind == Kind::TrainingNonfinite)
    return fmt::format("{} has {} elements that are NaN or infinite {}, and none without the kernel",
                       gradient_name(e), e.nonfinite, training_place(e));
  if (kind == Kind::LossGap)
    return fmt::format(
        "{}, the loss is {:.2g} {} than with trusted kernels; other roundings and summation orders change it "
        "by {:.1g}",
        training_place(e), std::abs(e.loss_gap), e.loss_gap > 0 ? "higher" : "lower", e.noise);
  if (kind == Kind::GradientBias)
    return fmt::format("{} is {:.1f} % too {} {}; rounding explains {:.1g} %{}", gradient_name(e),
                       100 * std::abs(e.gain - 1), e.gain < 1 ? "small" : "large", training_place(e),
                       100 * e.noise, odds_text(e));
  return fmt::format("{} is {:.2g} % off {}; rounding explains {:.1g} %{}", gradient_name(e),
                     100 * e.relative_error, training_place(e), 100 * e.noise, odds_text(e));
}

}  // namespace assay
