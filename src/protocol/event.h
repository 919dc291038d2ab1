// What the runtime library reports while a program runs: one event per line of the file that the settings
// name.
//
// The process that writes them also runs the code under test, so a reader believes nothing beyond what
// decode() has checked: the types, lengths and ranges of all fields, and that a finding is of a kind that the
// device may report at all.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "finding/finding.h"
#include "finding/profile.h"

namespace assay::protocol {

// A launch has ended.
struct LaunchEvent {
  uint64_t id = 0;
  std::string kernel;  // its symbol
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint64_t stream = 0;
  uint64_t dynamic_shared = 0;  // bytes
  uint64_t warp_instructions = 0;
  double seconds = 0;
  std::string fault;  // why it ended early; empty: it did not
  Frame launched_at;  // the program's own Python code that launched it; line 0: not Python
};

// The device failed: no later call succeeds.
struct FaultEvent {
  std::string fault;   // "illegal address"
  std::string detail;  // in the engine's words
};

// A finding, with the number of its occurrences so far.
struct FindingEvent {
  Finding finding;
};
// A finding when it first occurs, in a launch that still runs. It is reported again, with its count, when the
// launch ends; if the program is killed before, this is all there is.
struct EarlyFindingEvent {
  Finding finding;
};
// Every early finding so far has been reported again as a FindingEvent.
struct FindingsReportedEvent {};

// A launch takes long. Sent now and then.
struct StillRunningEvent {
  struct Line {
    Where where;
    uint32_t warps = 0;  // that are at this line
  };
  std::string kernel;
  double seconds = 0;  // so far
  std::vector<Line> lines;
};

// The file behind the name of a module in places of host code ("program+0x1234").
struct ModuleEvent {
  std::string name, path;
};

// Where precision was lost since the last such event.
struct ProfileEvent {
  Profile profile;
};

// A function of the runtime, or a kernel, that the virtual GPU does not support.
struct UnsupportedEvent {
  std::string what;
};

// Device code that the program loaded, when it is first used.
struct CodeEvent {
  std::string ptx;
};

// What the program asked the device to do, in the order in which it asked: where nothing is done (Settings::record), or
// during a call of the worker (Settings::report_launches). A place in device memory is given by the label of its allocation; memory of the host has none.
struct RecordedPlace {
  std::string label;
  uint64_t offset = 0;  // bytes from the start of the allocation
  bool is_host = false;
  uint64_t bytes = 0;  // of the allocation
  bool operator==(const RecordedPlace&) const = default;
};
struct RecordedPointer {
  uint32_t at = 0;  // bytes into the parameters
  RecordedPlace to;
  bool operator==(const RecordedPointer&) const = default;
};
struct RecordedLaunchEvent {
  std::string kernel;  // its symbol
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  bool cooperative = false;
  uint64_t dynamic_shared = 0, static_shared = 0;  // bytes
  uint64_t shared_limit = 0;              // dynamic shared memory that the kernel may have; 0: not known
  std::vector<uint32_t> words;            // the parameters, so that structs need no description
  std::vector<RecordedPointer> pointers;  // every aligned pair of words that is a device address
  uint64_t stream = 0;  // operations of one stream follow each other; those of a graph have one each
  bool early = false;   // it may start before the grid before it has ended
};
struct RecordedFillEvent {
  RecordedPlace to;
  uint64_t width = 0, rows = 0;  // bytes of a row
  uint64_t stream = 0;
  bool zeros = false;  // it fills with zeros
};
struct RecordedCopyEvent {
  RecordedPlace to, from;
  uint64_t width = 0, rows = 0;
  uint64_t stream = 0;
};

// A call of the worker begins: the recorded events up to the next such event are of this call.
struct CallEvent {};

// What the program did with the device over time (Settings::report_activity). Times are seconds since the device was
// first used.

// The host code behind the events that name it by this number, which is not 0; sent before the first of them.
struct StackEvent {
  uint64_t id = 0;
  std::vector<std::string> calls;  // "program+0x1234", innermost first
  std::vector<Frame> stack;        // of Python, innermost first; empty: not called from Python
};
struct AllocationEvent {
  uint64_t id = 0;  // in the order of allocation, from 1
  uint64_t address = 0, bytes = 0;
  std::string label;  // "cudaMalloc"
  bool is_host = false;
  uint64_t stack = 0;
  double seconds = 0;
};
// Memory was given back, or the program ended with it.
struct ReleaseEvent {
  uint64_t id = 0;
  double seconds = 0;
  double called = 0;                           // when the host asked for it; cudaFreeAsync does not wait
  bool is_held = false;                        // until the program's end
  bool is_counted = false;                     // whether the next two are known
  uint64_t never_written = 0, never_read = 0;  // bytes
  double last_use = 0;                         // when the last operation that used it ended; 0: none did
  std::string writer;  // the kernel that wrote to it last; empty: none did, or not known
  Where written_at;    // … and its line
};
struct OutOfMemoryEvent {
  uint64_t bytes = 0, free = 0, stack = 0;
  double seconds = 0;
};
enum class OperationKind : uint8_t { Kernel, Copy, Fill };
struct OperationEvent {
  uint64_t id = 0, stream = 0;
  OperationKind kind = OperationKind::Kernel;
  double called = 0, returned = 0;  // of the host, which asked for it
  double begin = 0, end = 0;        // on the device
  bool is_graph = false;            // asked for as part of a graph
  uint64_t bytes = 0;               // of a copy or fill
  bool from_host = false, to_host = false;
  std::string kernel;  // its symbol
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint64_t shared_bytes = 0;  // dynamic
  uint64_t warp_instructions = 0;
  std::string fault;  // why it ended early; empty: it did not
};

using Event = std::variant<LaunchEvent, FaultEvent, FindingEvent, EarlyFindingEvent, FindingsReportedEvent,
                           StillRunningEvent, ModuleEvent, ProfileEvent, UnsupportedEvent, CodeEvent,
                           RecordedLaunchEvent, RecordedFillEvent, RecordedCopyEvent, CallEvent, StackEvent,
                           AllocationEvent, ReleaseEvent, OutOfMemoryEvent, OperationEvent>;

std::string encode(const Event& event);  // one line
Result<Event> decode_event(std::string_view line);

// The finding of an event, early or not; null where it has none.
const Finding* finding_of(const Event& event);

}  // namespace assay::protocol
