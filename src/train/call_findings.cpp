#include "train/call_findings.h"

#include <algorithm>

#include "judge/steps.h"

namespace assay::train {

using subject::CallOutcome;

namespace {

// What the device itself reported: an access that faulted, a deadlock.
std::vector<Finding> reported(const contract::Contract& contract, const contract::Shape& shape,
                              const subject::Observation& seen) {
  std::vector<Finding> findings;
  for (const protocol::Event& event : seen.events)
    if (const auto* found = std::get_if<protocol::FindingEvent>(&event);
        found && found->finding.severity == Severity::Error)
      findings.push_back(found->finding);
  return judge::placed(std::move(findings), {.contract = &contract, .shape = &shape});
}

bool has_kind(const std::vector<Finding>& findings, Kind kind) {
  return std::ranges::any_of(findings, [&](const Finding& finding) { return finding.kind == kind; });
}

bool is_unsupported(const subject::Observation& seen) {
  return std::ranges::any_of(seen.events, [](const protocol::Event& event) {
    return std::holds_alternative<protocol::UnsupportedEvent>(event);
  });
}

Finding written_outside(const subject::Trespass& trespass) {
  evidence::Access access{.access = evidence::AccessKind::Write};
  access.place.offset = trespass.offset;
  access.place.element = evidence::TensorElement{trespass.tensor, {}, {}};
  access.bytes_changed = static_cast<uint64_t>(trespass.bytes);
  if (trespass.in_gap) access.detail = "between its elements";
  return {.kind = Kind::OutOfBounds, .evidence = std::move(access)};
}

}  // namespace

std::vector<Finding> call_findings(const contract::Contract& contract, const subject::Subject& subject,
                                   const contract::Shape& shape, const subject::Observation& seen) {
  if (is_unsupported(seen)) return {};
  std::vector<Finding> findings = reported(contract, shape, seen);
  switch (seen.outcome) {
    case CallOutcome::Ended:
      break;
    case CallOutcome::DeviceError:
      if (findings.empty())
        findings.push_back({.kind = Kind::LaunchFailure,
                            .evidence = evidence::Launch{.status = seen.error_code, .detail = seen.error}});
      return findings;
    case CallOutcome::PythonFailed:
      if (seen.python && seen.python->unsupported) return {};
      [[fallthrough]];
    case CallOutcome::Crashed:
      if (findings.empty())
        findings.push_back({.kind = Kind::Crash, .evidence = evidence::Process{.detail = seen.error}});
      return findings;
    case CallOutcome::TimedOut:
    case CallOutcome::TooLarge:
    case CallOutcome::NoDeviceMemory:
    case CallOutcome::NotPerturbed:
    case CallOutcome::Unavailable:
      return findings;
  }
  for (const subject::Call& call : seen.calls) {
    if (call.returned != 0)
      findings.push_back({.kind = Kind::LaunchFailure,
                          .evidence = evidence::Launch{.function = subject.symbol, .status = call.returned}});
    // What the device has reported with its place is not repeated without one.
    if (!has_kind(findings, Kind::OutOfBounds))
      for (const subject::Trespass& trespass : call.trespasses) findings.push_back(written_outside(trespass));
    if (!has_kind(findings, Kind::ClobberedInput))
      for (const std::string& name : call.changed_inputs)
        findings.push_back({.kind = Kind::ClobberedInput, .evidence = evidence::Access{.input = name}});
  }
  return findings;
}

}  // namespace assay::train
