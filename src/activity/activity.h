// What a program did with the device over time, from the events that the runtime library reports
// (protocol::Settings::report_activity), and three ways to look at it.
//
// Example:
//
//     Recorder recorder;
//     recorder.add(protocol::AllocationEvent{.id = 1, .bytes = 1024, .label = "cudaMalloc"});
//     const Activity activity = recorder.take();
//     std::string text;
//     const Sink sink = [&](std::string_view piece) { text += piece; };
//     memory_snapshot(activity, sink);    // a pickle for PyTorch's memory viewer
//     trace(activity, sink);              // for Perfetto, chrome://tracing and PyTorch's tools
//     page(activity, "./program", sink);  // a page that holds everything it shows
//     use(text);
//
// Times are seconds since the program first used the device, on the CPU that ran the virtual GPU: they show the order
// and the overlap of things, not how fast a GPU would be.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "finding/finding.h"
#include "protocol/event.h"

namespace assay::activity {

// Texts that many events share (names of kernels, files) are views of Activity::texts.
struct Allocation {
  uint64_t id = 0, address = 0, bytes = 0;
  std::string_view label;
  bool is_host = false;
  std::size_t stack = 0;   // in Activity::stacks
  bool is_pooled = false;  // made from a pool: by cudaMallocAsync, or by Python code
  double begin = 0;
  // When the host freed it. What cudaFreeAsync frees is of use to the calls that follow, however late the virtual GPU runs
  // the work before it.
  double end = std::numeric_limits<double>::infinity();
  bool is_released = false;  // false: held until the program ended
  bool is_counted = false;   // whether the next two are known
  uint64_t never_written = 0, never_read = 0;
  double last_use = 0;      // 0: no operation used it
  std::string_view writer;  // the kernel that wrote to it last, as C++ spells it
  std::string_view file;    // … and where
  int line = 0;
};

// A launch, copy or fill.
struct Operation {
  uint64_t id = 0, stream = 0;
  protocol::OperationKind kind = protocol::OperationKind::Kernel;
  bool is_graph = false, from_host = false, to_host = false;
  double called = 0, returned = 0;  // of the host, which asked for it
  double begin = 0, end = 0;        // on the device
  uint64_t bytes = 0;               // of a copy or fill
  std::string_view kernel;          // as C++ spells it
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint64_t shared_bytes = 0;
  uint64_t warp_instructions = 0;
  std::string_view fault;  // why it ended early; empty: it did not
};

struct OutOfMemory {
  double seconds = 0;
  uint64_t bytes = 0, free = 0;
  std::size_t stack = 0;
};

// A finding when it was reported: at the end of the operation that showed it.
struct FoundAt {
  double seconds = 0;
  Finding finding;
};

// Device memory was taken or given back.
struct Change {
  double seconds = 0;
  uint32_t allocation = 0;  // its position
  bool is_end = false;
};

struct Activity {
  Activity() = default;
  Activity(Activity&&) = default;
  Activity& operator=(Activity&&) = default;

  std::unordered_set<std::string> texts;
  std::vector<std::vector<Frame>> stacks;  // innermost first; the first one is empty
  std::vector<Allocation> allocations;     // in their order
  std::vector<Change> changes;        // in their order; what is given back makes room at the same instant
  std::vector<Operation> operations;  // in the order in which they ended
  std::vector<OutOfMemory> out_of_memory;
  std::vector<FoundAt> findings;
  double end = 0;  // of the last event

  const std::vector<Frame>& stack_of(const Allocation& allocation) const { return stacks[allocation.stack]; }
};

// The most memory of the device that was held at a time, when, and by which allocations (positions), largest first.
struct Peak {
  uint64_t bytes = 0;
  double seconds = 0;
  std::vector<std::size_t> held;
};
Peak peak_of(const Activity& activity);

class Recorder {
 public:
  void add(const protocol::Event& event);
  // Room for the events of a log of so many bytes, so that they are not moved as they become more. What is not used of it takes
  // no memory.
  void expect(uint64_t log_bytes);
  // `frames`: the source lines of calls such as "program+0x1234", if they can be looked up.
  using Frames = std::function<std::vector<Frame>(const std::vector<std::string>& calls)>;
  Activity take(const Frames& frames = {});

  // All calls that `frames` will be asked about, and all findings: so that places can be looked up together.
  std::vector<std::string> calls() const;
  std::vector<FoundAt>& findings() { return activity_.findings; }

 private:
  void add_event(const protocol::StackEvent& event);
  void add_event(const protocol::AllocationEvent& event);
  void add_event(const protocol::ReleaseEvent& event);
  void add_event(const protocol::OutOfMemoryEvent& event);
  void add_event(const protocol::OperationEvent& event);
  void add_event(const protocol::FindingEvent& event);
  template <class Other>
  void add_event(const Other&) {}

  void passed(double seconds);
  std::size_t stack_at(uint64_t id) const;
  bool is_pooled(const protocol::AllocationEvent& event) const;
  // One of Activity::texts; `last` is the one that the caller asked for last.
  std::string_view shared(const std::string& text, std::string_view& last);
  std::string_view name_of(const std::string& kernel);  // as C++ spells it

  Activity activity_;
  std::vector<protocol::StackEvent> stacks_;
  std::unordered_map<uint64_t, std::size_t> stack_places_, allocation_places_;  // by the numbers of events
  std::unordered_map<std::string, std::string_view> names_;  // of kernels, by their symbols
  const std::pair<const std::string, std::string_view>* last_name_ = nullptr;
  std::string_view last_label_, last_file_, last_fault_;
};

// Takes a file, piece by piece.
using Sink = std::function<void(std::string_view piece)>;

void memory_snapshot(const Activity& activity, const Sink& sink);
void trace(const Activity& activity, const Sink& sink);
void page(const Activity& activity, const std::string& program, const Sink& sink);

// What `write` hands to its sink, as `gzip -1` packs it: traces are read packed, too.
void gzip(const std::function<void(const Sink&)>& write, const Sink& sink);

}  // namespace assay::activity
