// Which line a numeric finding is about, by shadow execution (finding/profile.h).
//
// Shadow execution computes every value in FP64 as well, and so knows how much of an output's error entered at
// which line. That explains the judge's finding only if the errors are about as large; then the line with most
// of the error is named. f32 rounding is unavoidable: if cancellation makes such errors much larger later, the
// line that cancels is named instead. If rounding does not explain the error at all, a line at which nearly
// everything cancels is still the place to look, but only as a suspicion. And a sum is not called narrow if
// nothing narrow was ever added.
#include <algorithm>
#include <cmath>

#include "finding/message.h"
#include "judge/steps.h"

namespace assay::judge {

namespace {

using evidence::ErrorLine;
using evidence::Numeric;

// The largest relative error that the shadow saw, as a part of the worst that the judge saw, for one to
// explain the other. tests/shadow/error_lines.txt pins this and the next ones.
constexpr double kExplains = 0.02;
constexpr double kManyBits = 4;     // leading bits, of a cancellation that matters
constexpr double kMuchLarger = 10;  // times, that errors grow by such a cancellation
constexpr double kLeastError =
    0x1p-60;  // relative: smaller ones count as that, so that nothing is divided by 0
constexpr double kOrdinary = 0x1p-20;  // relative error that enters at an operation in f32, at most
constexpr double kBrings = 0.2;        // share of a line that brings some of the error
constexpr double kNearlyAll = 0.9;     // share of a line that brings the error alone
constexpr double kMostOf = 0.1;        // of the growth of an error, for a line to be its cause
// Relative error at which nothing is left of a result. How many times larger the error is than the exact result then says only how
// small that happens to be. tests/shadow/unseen/wrong_variance_of_columns.cu has such elements.
constexpr double kAllLost = 0.1;
constexpr double kTiny = 0x1p-20;     // of the operands: what their cancellation may lose
constexpr double kWorthNaming = 0.3;  // share of the error of the line that is named
constexpr double kAllDeclared =
    0.9999;  // share of roundings that the contract knows of: nothing else is left

const OutputProfile* output_named(const Profile& profile, const std::string& name) {
  for (const OutputProfile& output : profile.outputs)
    if (output.name == name) return &output;
  return profile.outputs.empty() ? nullptr : &profile.outputs.front();
}

const LineProfile* line_at(const Profile& profile, const Where& where) {
  for (const LineProfile& line : profile.lines)
    if (line.where == where) return &line;
  return nullptr;
}

// Does what the shadow saw of this output explain what the judge saw?
bool explains(const Numeric& numeric, const OutputProfile& output) {
  if (output.broken > 0) return true;
  if (!numeric.worst || !std::isfinite(numeric.worst->stored) || !std::isfinite(numeric.worst->exact))
    return false;
  const double stored = numeric.worst->stored, exact = numeric.worst->exact;
  const double scale = std::max(std::fabs(stored), std::fabs(exact));
  return scale > 0 && output.relative >= kExplains * std::fabs(stored - exact) / scale;
}

// No element of this output has an error of rounding near what the judge saw. The relative one may be large all the same:
// where a sum of two large numbers is all but zero.
bool errs_far_less(const Numeric& numeric, const OutputProfile& output) {
  if (output.broken > 0 || output.error <= 0 || !numeric.worst) return false;
  return output.error < kExplains * std::fabs(numeric.worst->stored - numeric.worst->exact);
}

// Another output is rounded here to its own type, and its contract knows that: what is computed from it may
// go on from the rounded value.
bool is_declared(const Profile& profile, const OutputProfile& output, const Where& where) {
  return std::any_of(profile.outputs.begin(), profile.outputs.end(), [&](const OutputProfile& other) {
    return other.name != output.name && other.rounded_at.line != 0 && other.rounded_at == where;
  });
}

// The line that most of an output's error enters at, with its share; none when none stands out.
std::optional<LineShare> leading_line(const Profile& profile, const OutputProfile& output) {
  double declared = 0;
  std::optional<LineShare> first;
  for (const LineShare& place : output.lines) {
    if (is_declared(profile, output, place.where))
      declared += place.share;
    else if (!first)
      first = place;
  }
  if (!first || declared > kAllDeclared) return std::nullopt;
  first->share = std::min(1.0, first->share / (1 - std::max(declared, 0.0)));
  return first->share < kWorthNaming || first->share < output.others ? std::nullopt : first;
}

// Where the output's error is many times larger than any that entered at its line, and bits cancel at a line
// that makes errors about so much larger: that they matter is its doing.
const LineProfile* cancelling(const Profile& profile, const OutputProfile& output, const LineProfile& line) {
  if (output.broken > 0 || line.introduced_max > kOrdinary || line.overflowed > 0) return nullptr;
  const auto brings = [](const LineShare& part) { return std::fabs(part.share) > kBrings; };
  const bool several = std::count_if(output.lines.begin(), output.lines.end(), brings) > 1;
  // 1 + exp(x) loses what log would need: no fault of log.
  const bool alone = std::any_of(output.lines.begin(), output.lines.end(),
                                 [](const LineShare& part) { return part.share > kNearlyAll; });
  const double grown = output.relative / std::max(line.introduced_max, kLeastError);
  const LineProfile* most = nullptr;
  for (const LineProfile& other : profile.lines) {
    const bool loses_all = !alone && other.amplification * line.introduced_max > kAllLost;
    const bool so_much =
        loses_all || (several && other.amplification >= std::max(kMuchLarger, kMostOf * grown));
    if (grown < kMuchLarger || !so_much || other.cancelled_bits < kManyBits) continue;
    if (!most || other.amplification > most->amplification) most = &other;
  }
  return most;
}

// A function may hide an error from the shadow (tanhf gives 1 for large arguments, and so does its shadow);
// where most bits cancel is still the place to look, if what is missing is so small against what cancels
// there that it can have been lost.
const LineProfile* suspect(const Finding& finding, const Numeric& numeric, const Profile& profile) {
  if (finding.kind != Kind::PrecisionLoss && finding.kind != Kind::WrongResult) return nullptr;
  if (!numeric.worst || !std::isfinite(numeric.worst->stored) || !std::isfinite(numeric.worst->exact))
    return nullptr;
  const double stored = numeric.worst->stored, missing = std::fabs(stored - numeric.worst->exact);
  if (finding.kind == Kind::WrongResult && stored != 0) return nullptr;
  const LineProfile* most = nullptr;
  for (const LineProfile& line : profile.lines) {
    if (line.cancelled_bits < kManyBits || line.amplification < kMuchLarger ||
        missing > kTiny * line.cancelled_from)
      continue;
    if (!most || line.amplification > most->amplification) most = &line;
  }
  return most;
}

bool any_broken(const Profile& profile) {
  return std::any_of(profile.outputs.begin(), profile.outputs.end(),
                     [](const OutputProfile& output) { return output.broken > 0; });
}

// Nothing coarser than f32 ever entered but the rounding of results to their own type, so no sum was narrow, whatever
// its errors look like.
bool is_never_narrow(const contract::Contract& contract, const Profile& profile) {
  return contract.reference.accumulate == contract::DType::f32 && !any_broken(profile) &&
         std::all_of(profile.lines.begin(), profile.lines.end(), [](const LineProfile& line) {
           return line.rounds_result || (line.introduced_max <= kOrdinary && line.overflowed == 0);
         });
}

// The program without any rounding is as far from the formula as the kernel is: it computes something else. Not where
// the shadow lost track, nor where what is missing is so small that a cancellation may have lost it.
bool is_another_formula(const Finding& finding, const Numeric& numeric, const OutputProfile& output,
                        const contract::Contract& contract, const Profile& profile) {
  if (!is_never_narrow(contract, profile)) return false;
  const bool is_sum = finding.kind == Kind::LowPrecisionAccumulation;
  if (is_sum && errs_far_less(numeric, output)) return true;
  if (explains(numeric, output)) return false;
  if (is_sum) return true;
  return finding.kind == Kind::PrecisionLoss && profile.retaken.empty() && profile.decisions.empty() &&
         !suspect(finding, numeric, profile);
}

void explain(Finding& finding, const contract::Contract& contract,
             const std::shared_ptr<const Profile>& profile) {
  auto* numeric = std::get_if<Numeric>(&finding.evidence);
  if (!numeric || !is_numeric(finding.kind)) return;
  numeric->profile = profile;
  const OutputProfile* output = output_named(*profile, numeric->output);
  if (!output) return;
  if (is_another_formula(finding, *numeric, *output, contract, *profile)) {
    finding.kind = Kind::WrongResult;
    numeric->diagnosis.reset();
  }
  numeric->error_line = error_line(finding, *profile);
  if (!numeric->error_line) return;
  const ErrorLine& line = *numeric->error_line;
  finding.where = line.cancels_at && line.share > 0 ? *line.cancels_at : line.where;
}

}  // namespace

std::optional<ErrorLine> error_line(const Finding& finding, const Profile& profile) {
  const auto* numeric = std::get_if<Numeric>(&finding.evidence);
  const OutputProfile* output = numeric ? output_named(profile, numeric->output) : nullptr;
  if (!output) return std::nullopt;
  if (!explains(*numeric, *output)) {
    const LineProfile* line = suspect(finding, *numeric, profile);
    if (!line) return std::nullopt;
    return ErrorLine{.where = line->where, .operation = line->operation, .reason = reason(*line)};
  }
  const auto place = leading_line(profile, *output);
  const LineProfile* line = place ? line_at(profile, place->where) : nullptr;
  if (!line) return std::nullopt;
  ErrorLine found{
      .where = line->where, .operation = line->operation, .reason = reason(*line), .share = place->share};
  if (const LineProfile* cancels = cancelling(profile, *output, *line)) {
    found.cancels_at = cancels->where;
    found.cancelled_bits = cancels->cancelled_bits;
    found.amplification = cancels->amplification;
  }
  return found;
}

std::vector<Finding> explained(std::vector<Finding> findings, const Known& known) {
  if (!known.profile || !known.contract) return findings;
  for (Finding& finding : findings) explain(finding, *known.contract, known.profile);
  return findings;
}

}  // namespace assay::judge
