// A proof on the terminal: what was found, then the statement in full (for which dims, under which launches, with
// which assumptions), obligation by obligation.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "assayer/locate.h"
#include "base/symbol.h"
#include "prove/prove.h"
#include "report/report.h"

namespace assay::prove {

namespace {

constexpr size_t kMostReasons = 4;                   // of an obligation that are listed
constexpr std::string_view kIndent = "           ";  // of what is said below an obligation: under its name

std::string place_text(const Where& where) {
  if (where.file.empty() || where.line == 0) return "";
  return fmt::format("{}:{}: ", assayer::shown(where.file), where.line);
}

std::string counted(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// " (2 of 3)"
std::string share_text(const Obligation& obligation) {
  if (obligation.total == 0) return "";
  const size_t open = std::min(obligation.total, obligation.open.size());
  return fmt::format(" ({} of {})", obligation.total - open, obligation.total);
}

// Each reason once, with the first place that has it.
std::string reasons_text(const Obligation& obligation, const report::TerminalOptions& options) {
  std::vector<std::pair<const Place*, size_t>> reasons;
  for (const Place& place : obligation.open) {
    const auto known = std::find_if(reasons.begin(), reasons.end(),
                                    [&](const auto& r) { return r.first->reason == place.reason; });
    if (known == reasons.end())
      reasons.emplace_back(&place, 1);
    else
      ++known->second;
  }
  std::string text;
  for (size_t i = 0; i < std::min(kMostReasons, reasons.size()); ++i) {
    const auto& [place, count] = reasons[i];
    text += report::wrapped(fmt::format("{}{}{}", place_text(place->where), place->reason,
                                        count > 1 ? fmt::format(" (at {} places)", count) : ""),
                            options.width, kIndent);
  }
  if (reasons.size() > kMostReasons)
    text += fmt::format("{}and {}\n", kIndent, counted(reasons.size() - kMostReasons, "other reason"));
  return text;
}

std::string obligation_text(const Obligation& obligation, const report::TerminalOptions& options) {
  std::string text = fmt::format("  {:<8} {:<10} {}{}\n", to_string(obligation.status), obligation.name,
                                 statement_of(obligation.name), share_text(obligation));
  if (obligation.status == Status::Refuted) return text + std::string(kIndent) + "see the finding above\n";
  if (obligation.status == Status::Unknown) text += reasons_text(obligation, options);
  if (obligation.status == Status::Agrees) text += report::wrapped(obligation.reason, options.width, kIndent);
  return text;
}

std::string checked_text(const Proof& proof) {
  return proof.all_shapes_recorded ? "These launches were checked by running the host code at every shape."
                                   : fmt::format(
                                         "These launches were checked by running the host code at {}; they "
                                         "are assumed to hold at the others.",
                                         counted(proof.recorded, "shape"));
}

}  // namespace

std::string terminal(const Proof& proof, const report::TerminalOptions& options) {
  std::string verdict(to_string(proof.verdict));
  for (char& c : verdict) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text = fmt::format("{}  {}", verdict, proof.contract);
  if (!proof.title.empty()) text += fmt::format("  {}", proof.title);
  text += "\n";
  for (const Finding& finding : proof.findings) text += "\n" + report::finding_text(finding, options);
  if (!proof.problem.empty())
    return text + report::wrapped("nothing could be proved: " + proof.problem, options.width, "  ");
  text += "\n" + report::wrapped(
                     fmt::format("For {}; every thread, and every input that the contract allows:",
                                 proof.shapes.empty() ? std::string("the only shape")
                                                      : fmt::format("{}", fmt::join(proof.shapes, "; "))),
                     options.width, "");
  std::vector<std::string> kernels;
  for (const Obligation& obligation : proof.obligations)
    if (std::find(kernels.begin(), kernels.end(), obligation.kernel) == kernels.end())
      kernels.push_back(obligation.kernel);
  for (const std::string& kernel : kernels) {
    text += "\n" + plain_name(kernel) + "\n";
    for (const LaunchStatement& launch : proof.launches)
      if (launch.kernel == kernel)
        text += report::wrapped("launched with " + launch.relation, options.width, "  ");
    for (const Obligation& obligation : proof.obligations)
      if (obligation.kernel == kernel) text += obligation_text(obligation, options);
  }
  if (!proof.launches.empty()) {
    text += "\n" + report::wrapped(checked_text(proof), options.width, "");
    text += "Assumed:\n";
    for (const std::string& assumption : proof.assumptions)
      text += report::wrapped("- " + assumption, options.width, "  ");
  }
  if (!proof.deviations.empty()) {
    text += "The launch relation does not hold (a limit of the prover, not a finding):\n";
    for (const std::string& deviation : proof.deviations)
      text += report::wrapped("- " + deviation, options.width, "  ");
  }
  if (!proof.gaps.empty()) {
    text += "Counterexamples that no run confirmed (limits of the prover, not findings):\n";
    for (const std::string& gap : proof.gaps) text += report::wrapped("- " + gap, options.width, "  ");
  }
  size_t of[4] = {};
  for (const Obligation& obligation : proof.obligations) ++of[static_cast<size_t>(obligation.status)];
  text += fmt::format("\n{} proved, {} refuted, {} unknown{} in {:.1f} s\n", counted(of[0], "obligation"),
                      of[1], of[2], of[3] > 0 ? "; the values agree" : "", proof.seconds);
  return text;
}

}  // namespace assay::prove
