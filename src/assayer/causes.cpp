#include "assayer/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "assayer/events.h"

namespace assay::assayer {

namespace {

bool is_inaccurate(std::string_view kind) {
  return is_inexact(kind) && kind != "wrong-result";
}

constexpr int64_t kFew = 8;          // elements judged: too few to say how much of an output is off
constexpr double kMostOfThem = 0.5;  // of the elements judged

bool is_of_few(const Finding& finding) {
  return finding.evidence.value("elements_judged", int64_t{0}) < kFew;
}

// Most elements are wrong, or none by itself and all together.
bool is_throughout(const Finding& finding) {
  if (!is_inexact(finding.kind) || is_of_few(finding)) return false;
  const auto judged = finding.evidence.value("elements_judged", int64_t{0}),
             outside = finding.evidence.value("elements_outside", int64_t{0});
  return outside == 0 || static_cast<double>(outside) >= kMostOfThem * static_cast<double>(judged);
}

int weight_of(const Finding& finding) {
  const judge::KindInfo* kind = judge::kind_named(finding.kind);
  return (finding.severity == Severity::Error ? 1000 : 0) + (kind ? kind->weight : 0);
}

bool same_line(const Finding& a, const Finding& b) {
  return a.where.line == b.where.line && a.where.file == b.where.file;
}

}  // namespace

std::string signature_of(const Finding& finding) {
  const std::string kind = is_inaccurate(finding.kind) ? "precision" : finding.kind;
  const std::string output = text_at(finding.evidence, "output");
  // The line of a numeric finding is found out late, if at all.
  if (!output.empty()) return fmt::format("{} of {}", kind, output);
  if (finding.where.line > 0)
    return fmt::format("{} at {}:{}", kind, std::filesystem::path(finding.where.file).filename().string(),
                       finding.where.line);
  const std::string kernel = text_at(finding.evidence, "kernel");
  return kernel.empty() ? kind : fmt::format("{} in {}", kind, kernel);
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
      same->evidence["also"].push_back(fmt::format("{}:{}", finding.where.file, finding.where.line));
    }
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](const Finding& a, const Finding& b) { return weight_of(a) > weight_of(b); });
  for (std::size_t i = 1; i < kept.size();) {
    const bool consequence = (kept[i].kind == "uninitialized" && kept[0].kind != "uninitialized") ||
                             kept[i].where.line == 0 || same_line(kept[i], kept[0]);
    if (!consequence) {
      ++i;
      continue;
    }
    kept[0].evidence["symptoms"].push_back(fmt::format("{}: {}", kept[i].kind, kept[i].message));
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return kept;
}

bool Causes::explains(const Cause& cause, const Finding& finding) {
  const std::string signature = signature_of(finding), output = text_at(finding.evidence, "output");
  if (cause.signature == signature || cause.seen.contains(signature)) return true;
  if (!is_inexact(finding.kind)) return false;
  return is_of_few(finding) ? cause.inexact.contains(output)
                            : is_throughout(finding) && cause.off.contains(output);
}

std::vector<Finding> Causes::unexplained(const std::vector<Finding>& findings) {
  std::vector<Finding> rest;
  std::set<Cause*> explaining;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::Error) continue;
    const auto cause =
        std::find_if(causes_.begin(), causes_.end(), [&](const Cause& c) { return explains(c, finding); });
    if (cause == causes_.end()) {
      rest.push_back(finding);
    } else {
      explaining.insert(&*cause);
    }
  }
  for (Cause* cause : explaining) ++cause->trials;
  return rest;
}

void Causes::add(const Finding& named, std::span<const Finding> seen) {
  Cause cause{named.kind, signature_of(named), {}, {}, {}, 1};
  for (const Finding& finding : seen) {
    cause.seen.insert(signature_of(finding));
    if (is_inexact(finding.kind)) cause.inexact.insert(text_at(finding.evidence, "output"));
    if (is_throughout(finding)) cause.off.insert(text_at(finding.evidence, "output"));
  }
  causes_.push_back(std::move(cause));
}

std::string Causes::renamed(const std::vector<Finding>& findings) const {
  for (const Finding& finding : findings) {
    const std::string signature = signature_of(finding);
    for (const Cause& cause : causes_)
      if (cause.kind != finding.kind && cause.seen.contains(signature)) return cause.kind;
  }
  return "";
}

bool Causes::knows(const Finding& finding) const {
  const std::string signature = signature_of(finding);
  return std::any_of(causes_.begin(), causes_.end(),
                     [&](const Cause& cause) { return cause.signature == signature; });
}

int Causes::trials(const Finding& named) const {
  const std::string signature = signature_of(named);
  for (const Cause& cause : causes_)
    if (cause.signature == signature) return cause.trials;
  return 1;
}

}  // namespace assay::assayer
