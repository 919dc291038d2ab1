// What the runtime library reports while a program runs, one line of JSON per event, in order. It goes to a file
// (`assay run`) or through a pipe (the worker of `assay check`). Everything in it comes from the process under test:
// read_event() checks every field, and findings are read by finding/json.h, which accepts only what the device may
// report.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "finding/finding.h"

namespace assay::protocol {

// A kernel has run.
struct LaunchEvent {
  uint64_t id = 0;
  std::string kernel;  // symbol
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint64_t stream = 0, dynamic_shared = 0, instructions = 0;
  double seconds = 0;
  std::string fault;  // "none", "illegal address", …
};
// The device has failed: nothing more runs.
struct FaultEvent {
  std::string kind, message;
};
// What a check found in a launch that has ended, or about the host.
struct FindingEvent {
  Finding finding;
};
// What a check has just seen in a launch that still runs: a program that is killed leaves nothing else.
struct SightingEvent {
  Finding finding;
};
// All sightings up to here have been reported as findings.
struct SightingsReportedEvent {};
// Where the warps of a launch are that goes on and on.
struct StillRunningEvent {
  std::string kernel;  // symbol
  double seconds = 0;
  std::vector<Where> lines;  // most warps first
};
// Which calls led to an allocation: "program+0x1234", innermost first.
struct AllocationEvent {
  uint64_t id = 0;
  std::vector<std::string> calls;
};
// The file that places such as "program+0x1234" are in.
struct ModuleEvent {
  std::string name, path;
};
// Where precision was lost.
struct ProfileEvent {
  Profile profile;
};
// A function or a kernel that the virtual GPU cannot run.
struct UnsupportedEvent {
  std::string function;  // of the runtime; or
  std::string message;
};

using Event = std::variant<LaunchEvent, FaultEvent, FindingEvent, SightingEvent, SightingsReportedEvent, StillRunningEvent,
                           AllocationEvent, ModuleEvent, ProfileEvent, UnsupportedEvent>;

// One line, without its end.
std::string write_event(const Event& event);
Result<Event> read_event(std::string_view line);

}  // namespace assay::protocol
