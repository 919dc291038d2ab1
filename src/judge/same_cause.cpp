#include "judge/same_cause.h"

#include <algorithm>
#include <filesystem>

namespace assay::judge {

namespace {

// Elements judged: fewer are too few to say how much of an output is off. Pinned by
// tests/judge/same_cause_test.
constexpr int64_t kFew = 8;
// Share of the elements judged from which most of an output is off.
constexpr double kMostOfThem = 0.5;

const evidence::Numeric* numeric(const Finding& finding) {
  return is_inexact(finding.kind) ? std::get_if<evidence::Numeric>(&finding.evidence) : nullptr;
}

bool is_of_few(const Finding& finding) {
  const auto* numbers = std::get_if<evidence::Numeric>(&finding.evidence);
  return !numbers || numbers->judged < kFew;
}

// Most elements are wrong, or none by itself and all together.
bool is_throughout(const Finding& finding) {
  const auto* numbers = numeric(finding);
  if (!numbers || is_of_few(finding)) return false;
  return numbers->outside == 0 ||
         static_cast<double>(numbers->outside) >= kMostOfThem * static_cast<double>(numbers->judged);
}

// Errors before warnings, then in the order of the table of kinds.
bool is_more_important(const Finding& a, const Finding& b) {
  if (a.severity != b.severity && (a.severity == Severity::Error || b.severity == Severity::Error))
    return a.severity == Severity::Error;
  return a.kind < b.kind;
}

bool is_consequence(const Finding& finding, const Finding& of) {
  return (finding.kind == Kind::Uninitialized && of.kind != Kind::Uninitialized) || finding.where.line == 0 ||
         finding.where == of.where;
}

}  // namespace

Signature signature_of(const Finding& finding) {
  const bool inaccurate = is_inexact(finding.kind) && finding.kind != Kind::WrongResult;
  const Kind kind = inaccurate ? Kind::PrecisionLoss : finding.kind;
  // The line of a numeric finding is found out late, if at all.
  if (std::string output = output_of(finding); !output.empty()) return {kind, std::move(output), ""};
  if (finding.where.line > 0)
    return {kind, "",
            text_of(Where{std::filesystem::path(finding.where.file).filename(), finding.where.line})};
  return {kind, "", kernel_of(finding)};
}

std::vector<Finding> distinct(const std::vector<Finding>& findings, bool apart) {
  std::vector<Finding> kept;
  for (const Finding& finding : findings) {
    const auto same = std::find_if(kept.begin(), kept.end(), [&](const Finding& f) {
      return f.kind == finding.kind && (!apart || signature_of(f) == signature_of(finding));
    });
    if (same == kept.end()) {
      kept.push_back(finding);
    } else if (finding.where.line > 0 && finding.where.line != same->where.line) {
      same->attribution.also.push_back(finding.where);
    }
  }
  std::stable_sort(kept.begin(), kept.end(), is_more_important);
  for (std::size_t i = 1; i < kept.size();) {
    if (!is_consequence(kept[i], kept[0])) {
      ++i;
      continue;
    }
    kept[0].attribution.consequences.push_back(std::move(kept[i]));
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return kept;
}

bool is_same_cause(const Finding& seen, const Finding& real) {
  std::vector<Finding> shown = seen.attribution.consequences;
  shown.push_back(seen);
  if (seen.attribution.symptom) {
    shown.push_back(seen);
    shown.back().kind = *seen.attribution.symptom;
  }
  // Without a kernel the line is where the call was made, or a guess.
  const bool placeless = output_of(real).empty() && kernel_of(real).empty();
  const auto is_of_its_kind = [&](const Finding& finding) { return finding.kind == real.kind; };
  if (placeless && std::any_of(shown.begin(), shown.end(), is_of_its_kind)) return true;
  if (real.kind == Kind::Timeout && (seen.kind == Kind::Deadlock || seen.kind == Kind::BarrierDivergence))
    return true;
  KnownCauses known;
  known.add(seen, shown);
  return known.unexplained({real}).empty();
}

bool KnownCauses::explains(const Known& cause, const Finding& finding) {
  const Signature signature = signature_of(finding);
  if (cause.signature == signature || cause.seen.contains(signature)) return true;
  if (!is_inexact(finding.kind)) return false;
  const std::string output = output_of(finding);
  return is_of_few(finding) ? cause.inexact.contains(output)
                            : is_throughout(finding) && cause.off.contains(output);
}

std::vector<Finding> KnownCauses::unexplained(const std::vector<Finding>& findings) {
  std::vector<Finding> rest;
  std::set<Known*> explaining;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::Error) continue;
    const auto cause =
        std::find_if(causes_.begin(), causes_.end(), [&](const Known& c) { return explains(c, finding); });
    if (cause == causes_.end()) {
      rest.push_back(finding);
    } else {
      explaining.insert(&*cause);
    }
  }
  for (Known* cause : explaining) ++cause->trials;
  return rest;
}

void KnownCauses::add(const Finding& named, std::span<const Finding> seen) {
  Known cause{signature_of(named), named.kind, {}, {}, {}, 1};
  for (const Finding& finding : seen) {
    cause.seen.insert(signature_of(finding));
    if (is_inexact(finding.kind)) cause.inexact.insert(output_of(finding));
    if (is_throughout(finding)) cause.off.insert(output_of(finding));
  }
  causes_.push_back(std::move(cause));
}

std::optional<Kind> KnownCauses::renamed(const std::vector<Finding>& findings) const {
  for (const Finding& finding : findings) {
    const Signature signature = signature_of(finding);
    for (const Known& cause : causes_)
      if (cause.kind != finding.kind && cause.seen.contains(signature)) return cause.kind;
  }
  return std::nullopt;
}

bool KnownCauses::knows(const Finding& finding) const {
  const Signature signature = signature_of(finding);
  return std::any_of(causes_.begin(), causes_.end(),
                     [&](const Known& cause) { return cause.signature == signature; });
}

int KnownCauses::trials(const Finding& named) const {
  const Signature signature = signature_of(named);
  for (const Known& cause : causes_)
    if (cause.signature == signature) return cause.trials;
  return 1;
}

}  // namespace assay::judge
