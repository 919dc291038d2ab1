// The message: what was seen (message_*.cpp, by family), after what it was attributed to.
#include "finding/message.h"

#include <fmt/format.h>

#include "finding/message_parts.h"

namespace assay {

namespace {

// By Cause.
constexpr std::string_view kCauses[] = {
    "",
    "correct alone, wrong while another call runs on another stream",
    "two calls that overlap use the same memory",
    "the same call gives different results in new processes, depending on the device's clock",
    "the same call gives different results in new processes, depending on the addresses of its buffers",
    "the same call gives different results in new processes, by chance or by the time of day",
    "the same call gives different results in new processes",
    "wrong once, and correct when the same calls were repeated at another time",
    "correct in a new process, wrong after earlier calls",
    "correct in a new process, wrong after another call",
    "wrong in a new process, correct after the same call",
    "correct in a new process, but in a later call",
    "ends in a new process, but not after earlier calls",
    "correct when malloc returns zeroed host memory, wrong otherwise",
    "correct when outputs and workspace hold zeros before the call, wrong otherwise",
    "work that the caller's stream does not order",
    "correct when the device is idle before and after the call, wrong when work on one stream is delayed",
};

// What was seen, as the evidence has it, whatever it was attributed to.
std::string seen(Kind kind, const Evidence& evidence) {
  struct {
    Kind kind;
    std::string operator()(const evidence::Numeric& e) const { return numeric_text(e); }
    std::string operator()(const evidence::Access& e) const { return access_text(kind, e); }
    std::string operator()(const evidence::Race& e) const { return race_text(e); }
    std::string operator()(const evidence::Synchronisation& e) const { return synchronisation_text(kind, e); }
    std::string operator()(const evidence::Launch& e) const { return launch_text(kind, e); }
    std::string operator()(const evidence::Process& e) const { return process_text(kind, e); }
    std::string operator()(const evidence::Code& e) const { return e.detail; }
    std::string operator()(const evidence::Training& e) const { return training_text(kind, e); }
  } visitor{kind};
  return std::visit(visitor, evidence);
}

}  // namespace

namespace {

// How far from its tensor an access is says what went wrong with the index; empty: what is wrong in general.
std::string_view bounds_advice(const evidence::Access& access) {
  const evidence::Place& place = access.place;
  if (!place.allocation || access.bytes == 0) return "";
  if (!place.allocation->live)
    return "free memory after its last use: on the stream that uses it, or after synchronising with that "
           "stream";
  // Farther than tails, halos and rows go: where a product of 32 bits has wrapped.
  constexpr int64_t kFar = 1 << 30;
  // In a tensor of so many bytes, a negative index is a sum or a product that has wrapped.
  constexpr uint64_t kGiant = uint64_t{1} << 31;
  const bool wraps = place.offset < 0 && place.allocation->bytes >= kGiant;
  if (wraps || place.offset < -kFar || place.offset > static_cast<int64_t>(place.allocation->bytes) + kFar)
    return "widen the index to 64 bits before multiplying (int64_t{row} * columns)";
  return place.offset < 0 ? "also guard the lower bound (if (i >= 0))" : "";
}

}  // namespace

std::string_view advice(const Finding& finding) {
  if (const auto* access = std::get_if<evidence::Access>(&finding.evidence);
      access && finding.kind == Kind::OutOfBounds)
    if (const std::string_view particular = bounds_advice(*access); !particular.empty()) return particular;
  const auto* race = std::get_if<evidence::Race>(&finding.evidence);
  const auto* launch = std::get_if<evidence::Launch>(&finding.evidence);
  const auto* process = std::get_if<evidence::Process>(&finding.evidence);
  const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
  const bool said =
      (race && finding.attribution.cause == Cause::None && race->fix.remedy != evidence::Remedy::None) ||
      (launch && launch->growth) || (process && process->raised) ||
      // What Python code does is no system call, and its message says what to change.
      (process && finding.kind == Kind::ForbiddenCall && process->what.empty()) ||
      (numeric && !numeric->misfit.empty());
  return said ? "" : info(finding.kind).fix;
}

std::string message(const Finding& finding) {
  const Attribution& attribution = finding.attribution;
  const Kind first_seen = attribution.symptom.value_or(finding.kind);
  std::string text = seen(first_seen, finding.evidence);
  // Under the name of its cause, what was seen needs its own name.
  const bool needs_name = attribution.cause != Cause::None && !is_numeric(first_seen) &&
                          attribution.cause != Cause::EndsOnlyFirst;
  if (needs_name) text = fmt::format("{}: {}", to_string(first_seen), text);
  if (!attribution.related.empty()) text = fmt::format("with {}: {}", attribution.related, text);
  if (attribution.cause != Cause::None) {
    const std::string difference =
        attribution.difference.empty() ? "" : fmt::format(" ({})", attribution.difference);
    text = fmt::format("{}{}: {}", kCauses[static_cast<std::size_t>(attribution.cause)], difference, text);
  }
  return attribution.surroundings.empty() ? text : fmt::format("{}: {}", attribution.surroundings, text);
}

}  // namespace assay
