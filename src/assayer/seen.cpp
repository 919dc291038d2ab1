#include "assayer/seen.h"

#include <fmt/format.h>

#include <algorithm>

#include "assayer/locate.h"
#include "judge/steps.h"
#include "report/elements.h"
#include "subject/places.h"

namespace assay::assayer {

using subject::CallOutcome;
using subject::Observation;

namespace {

// Warnings about what host code asked of the system, not about the call.
bool is_host_warning(const Finding& finding) {
  return finding.severity == Severity::Warning &&
         (finding.kind == Kind::ForbiddenCall || finding.kind == Kind::EnvironmentProbe);
}

// What was seen in a launch that was cut short, where nothing more was reported of it.
void add_sightings(const Observation& observation, std::vector<Finding>& findings) {
  if (observation.outcome != CallOutcome::TimedOut && observation.outcome != CallOutcome::Crashed) return;
  for (const protocol::Event& event : observation.events) {
    const auto* sighting = std::get_if<protocol::EarlyFindingEvent>(&event);
    if (!sighting) continue;
    const bool known = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.kind == sighting->finding.kind && finding.where == sighting->finding.where;
    });
    if (!known) findings.push_back(sighting->finding);
  }
}

// Torch and its libraries try what they can do without: of a Python subject only what may have made the call fail
// matters, and never that a library of torch's has a runtime of its own.
bool matters(const protocol::UnsupportedEvent& unsupported, const subject::Subject& subject,
             const Observation& observation) {
  constexpr std::string_view kOwnRuntime = "a CUDA runtime that is linked into the program";
  if (subject.python.empty()) return true;
  return observation.outcome != CallOutcome::Ended && !unsupported.what.starts_with(kOwnRuntime);
}

// Lines of the subject's host code, from its own line table. Of an allocation, the subject did not make it.
void name_host_code(const subject::Subject& subject, std::vector<Finding>& findings) {
  if (subject.library.empty()) return;
  subject::Places places;
  places.add_module(subject::kLibraryName, subject.library);
  places.name(findings);
}

// The host code that died touched the device's memory: that is what it died of.
void name_crash(const Observation& observation, std::vector<Finding>& findings) {
  if (observation.outcome != CallOutcome::Crashed) return;
  for (Finding& finding : findings) {
    const auto* access = std::get_if<evidence::Access>(&finding.evidence);
    if (!access || access->place.space != evidence::Space::Host) continue;
    finding.attribution.symptom = finding.kind;
    finding.kind = Kind::Crash;
  }
}

}  // namespace

Seen seen_by_device(const contract::Contract& contract, const subject::Subject& subject,
                    const trial::Trial& trial, const Observation& observation) {
  Seen seen;
  std::vector<Finding> all;
  for (const protocol::Event& event : observation.events) {
    const auto* unsupported = std::get_if<protocol::UnsupportedEvent>(&event);
    if (unsupported && matters(*unsupported, subject, observation))
      seen.unsupported = fmt::format("the virtual GPU does not support {}", unsupported->what);
    if (const auto* found = std::get_if<protocol::FindingEvent>(&event)) all.push_back(found->finding);
  }
  add_sightings(observation, all);
  all = judge::placed(std::move(all), {.contract = &contract, .shape = &trial.shape});
  for (Finding& finding : all) {
    report::name_elements(finding);
    for_each_place(finding, [](Where& where) { where.file = shown(where.file); });
  }
  name_host_code(subject, all);
  name_crash(observation, all);
  for (Finding& finding : all)
    (is_host_warning(finding) ? seen.host_warnings : seen.findings).push_back(std::move(finding));
  return seen;
}

Finding unended(const Observation& observation, const std::string& entry) {
  const protocol::StillRunningEvent* running = nullptr;
  for (const protocol::Event& event : observation.events) {
    if (const auto* still = std::get_if<protocol::StillRunningEvent>(&event)) running = still;
    if (std::holds_alternative<protocol::LaunchEvent>(event)) running = nullptr;  // that one ended
  }
  evidence::Process process{.entry = entry, .limit = observation.error};
  Finding finding{.kind = Kind::Timeout};
  if (running) {
    process.kernel = running->kernel;
    for (const auto& line : running->lines)
      process.standing.push_back({shown(line.where.file), line.where.line});
    if (!process.standing.empty()) finding.where = process.standing.front();
  }
  finding.evidence = std::move(process);
  return finding;
}

Finding crash(std::string detail) {
  return {.kind = Kind::Crash, .evidence = evidence::Process{.detail = std::move(detail)}};
}

}  // namespace assay::assayer
