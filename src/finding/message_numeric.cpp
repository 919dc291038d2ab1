// What is said of numbers: how many are off and where, the worst of them, the defect that explains them, and
// the line at which the error enters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "finding/message_parts.h"

namespace assay {

using namespace evidence;

namespace {

// Parts of their value that sums must lose or gain for it to be worth a word.
constexpr double kWorthNaming = 0.005;

// "; sums of 1000 to 9999 terms lose 12.1 % of their value".
std::string gain_text(const Numeric& e) {
  for (const Part& part : e.parts) {
    if (!part.by_terms || std::abs(part.gain) <= kWorthNaming) continue;
    return fmt::format("; {} {} {:.1f} % of their value", part.name, part.gain < 0 ? "lose" : "gain",
                       100 * std::abs(part.gain));
  }
  return "";
}

// How many elements are off, or how improbable their errors are together.
std::string extent_text(const Numeric& e) {
  if (e.outside > 0)
    return fmt::format("{} of {} elements checked {}", e.outside, e.judged,
                       !e.is_integer    ? (e.outside == 1 ? "is beyond what rounding can explain"
                                                          : "are beyond what rounding can explain")
                       : e.outside == 1 ? "is wrong"
                                        : "are wrong") +
           gain_text(e);
  if (e.parts.empty()) return fmt::format("the errors of {} elements are too large in total", e.judged);
  const Part& part = e.parts.front();
  const bool seldom = part.expected < part.elements / 2;  // is a result not the nearest number
  const std::string text =
      seldom ? fmt::format("in {}, {:.3g} % of results are rounded incorrectly, where {:.2g} % are expected",
                           part.name, 100 * std::min(1.0, part.observed / part.elements),
                           100 * part.expected / part.elements)
             : fmt::format("in {}, errors are {:.3g} times as large as rounding explains", part.name,
                           std::sqrt(part.observed / part.expected));
  return text + gain_text(e);
}

std::string nonfinite_text(const Numeric& e) {
  const char* what = "is NaN or infinite where the result is finite";
  if (e.hidden > 0)
    what = "hides a NaN or infinity";
  else if (e.worst && !std::isfinite(e.worst->exact))
    what = "has the wrong NaN or infinity";
  return fmt::format("{} {} in {} element{}", e.output, what, e.class_differs,
                     e.class_differs == 1 ? "" : "s");
}

std::string difference_text(const Numeric& e) {
  const Difference& d = *e.difference;
  const std::string element = e.output + element_text(d.index, e.is_complex);
  if (d.relation == "schedules")
    return fmt::format(
        "the result depends on the thread schedule: {} word{} of {} differ{} under "
        "{}; the word at byte {} is first {}, then {}",
        d.count, d.count == 1 ? "" : "s", e.output, d.count == 1 ? "s" : "", d.change,
        d.index.empty() ? 0 : d.index.front(), d.first, d.second);
  if (d.relation == "load")
    return fmt::format(
        "two calls with the same inputs, {}, differ in {} element{} of {}: {} is first {}, then {}", d.change,
        d.count, d.count == 1 ? "" : "s", e.output, element, d.first, d.second);
  if (d.relation == "graph")
    return fmt::format(
        "captured into a CUDA graph and replayed with other inputs, the call gives a different result in {} "
        "element{} of {}: {} is {}, but {} from the graph",
        d.count, d.count == 1 ? "" : "s", e.output, element, d.first, d.second);
  if (d.change.empty())
    return fmt::format("two calls with the same inputs differ in {} elements of {}: {} is first {}, then {}",
                       d.count, e.output, element, d.first, d.second);
  constexpr std::pair<std::string_view, std::string_view> kBroken[] = {
      {"scaled", "do not scale with it"},
      {"negated", "do not change sign with it"},
      {"permuted", "do not move with their slice"}};
  std::string_view broken = "change";
  for (const auto& [relation, text] : kBroken)
    if (relation == d.relation) broken = text;
  return fmt::format("{}: with {}, {} elements {}, although {}: {} is {}, expected {}", e.output, d.change,
                     d.count, broken,
                     d.dim.empty() ? std::string("the formula says otherwise")
                                   : fmt::format("the contract says batch_invariant along {}", d.dim),
                     element, d.first, d.second);
}

std::string short_place(const Where& where) {
  return text_of(Where{std::filesystem::path(where.file).filename().string(), where.line});
}

// "97 % of the error of `dw` enters at k.cu:14 (atom.add.bf16): every addition …".
std::string error_line_text(const Numeric& e) {
  const ErrorLine& line = *e.error_line;
  if (line.share <= 0)
    return fmt::format(
        "\nTracked rounding errors do not explain it; leading bits cancel at {}, where a difference this "
        "small can be lost",
        short_place(line.where));
  const std::string inputs = e.profile ? e.profile->inputs : "";
  std::string text =
      fmt::format("\n{}{:.0f} % of the error of `{}` enters at {} ({}): {}",
                  inputs.empty() ? "" : fmt::format("With large inputs ({}), ", inputs), 100 * line.share,
                  e.output, short_place(line.where), line.operation, line.reason);
  if (line.cancels_at && *line.cancels_at != line.where)
    text +=
        fmt::format(". At {} up to {:.0f} leading bits cancel, which makes such errors {:.3g} times larger",
                    short_place(*line.cancels_at), line.cancelled_bits, line.amplification);
  return text;
}

bool mentions(std::string_view operation, std::string_view what) {
  return operation.find(what) != std::string_view::npos;
}

std::string_view narrow_type(std::string_view operation) {
  for (const std::string_view type : {"bf16", "f16", "e4m3", "e5m2"})
    if (mentions(operation, type)) return type;
  return "";
}

}  // namespace

std::string index_text(const std::vector<int64_t>& index) {
  std::string text;
  for (const int64_t i : index) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  return text.empty() ? "" : "[" + text + "]";
}

std::string element_text(const std::vector<int64_t>& index, bool is_complex) {
  if (!is_complex || index.empty()) return index_text(index);
  return index_text({index.begin(), index.end() - 1}) + (index.back() == 0 ? ".re" : ".im");
}

std::string sentence(const ComparedText& c) {
  std::string text = fmt::format("is {}, should be {}", c.stored, c.exact);
  if (c.error.empty()) return text;
  if (c.is_exact) return fmt::format("{} (error {}, where the result must be exact)", text, c.error);
  if (c.times.empty()) return c.budget.empty() ? text : fmt::format("{} (error {})", text, c.error);
  return fmt::format("{} (error {}, {} times the budget of {})", text, c.error, c.times, c.budget);
}

std::string worst_text(const Numeric& e) {
  if (!e.worst) return "";
  return fmt::format("{}{} {}", e.output, element_text(e.worst->index, e.is_complex),
                     sentence(e.worst->text));
}

std::string numeric_text(const Numeric& e) {
  if (!e.misfit.empty()) return e.misfit;
  if (e.difference) return difference_text(e);
  std::string text =
      e.class_differs > 0 ? nonfinite_text(e) : fmt::format("{}: {}", e.output, extent_text(e));
  const std::string why = e.diagnosis ? fmt::format(", as if {}", e.diagnosis->description) : "";
  const std::string worst = worst_text(e);
  // Of a NaN, the element says more than the defect.
  text += e.class_differs > 0 ? fmt::format(": {}{}", worst, why) : why + (worst.empty() ? "" : ": " + worst);
  return e.error_line ? text + error_line_text(e) : text;
}

std::string reason(const LineProfile& line) {
  const std::string_view type = narrow_type(line.operation);
  const auto executions = static_cast<double>(std::max<uint64_t>(line.executions, 1));
  const int bits = type == "bf16" ? 8 : type == "f16" ? 11 : 24;
  if (line.overflowed != 0)
    return fmt::format("{} results overflow where the exact ones are finite", line.overflowed);
  constexpr double kOftenStuck = 0.02;  // share of additions without effect that is no accident
  if (const double stuck = static_cast<double>(line.stagnated) / executions; stuck > kOftenStuck)
    return fmt::format(
        "{:.0f} % of the additions no longer change the sum: a sum of {} that is 2^{} times the term stays "
        "the same",
        100 * stuck, type.empty() ? "floats" : type, bits);
  if (mentions(line.operation, ".rz") || mentions(line.operation, "shr") ||
      mentions(line.operation, "mov.b32"))
    return "results are truncated, not rounded: every error is toward zero";
  if (mentions(line.operation, "cvt") && !type.empty())
    return fmt::format("values are rounded to {} and used in further arithmetic", type);
  const bool adds = mentions(line.operation, "add") || mentions(line.operation, "fma");
  if (!type.empty() && adds)
    return fmt::format("every addition rounds the sum to {}; a sum 2^{} times the term no longer grows", type,
                       type == "bf16" ? 8 : 11);
  if (!type.empty()) return fmt::format("the arithmetic is in {}", type);
  constexpr double kManyBits = 10, kMuchLarger = 100;  // of a cancellation that is the reason by itself
  if (line.cancelled_bits > kManyBits && line.amplification > kMuchLarger)
    return fmt::format(
        "up to {:.0f} leading bits cancel, which makes the errors of the operands {:.0f} times larger",
        line.cancelled_bits, line.amplification);
  if (line.flushed != 0) return fmt::format("{} results become zero", line.flushed);
  return "the rounding errors of this line add up";
}

}  // namespace assay
