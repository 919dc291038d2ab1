// What a launch shares among its warps, and what a thread of the host keeps while it runs them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <vector>

#include "vgpu/device.h"
#include "vgpu/provenance.h"

namespace assay::vgpu {

struct CompiledVariant;

struct GridContext {
  LaunchInfo info;
  const Program* program = nullptr;
  const Function* entry = nullptr;
  Memory* memory = nullptr;
  const std::byte* parameters = nullptr;  // the kernel's parameter block
  uint32_t parameter_bytes = 0;
  std::span<Listener* const> listeners;
  // Those of them that want accesses, by space.
  std::array<std::vector<Listener*>, static_cast<size_t>(ptx::Space::Param) + 1> access_listeners;
  const Options* options = nullptr;
  bool watched = false;
  Dim3 cluster;                      // blocks of a cluster
  uint32_t shared_bytes = 0;         // of a block: static and dynamic
  uint32_t reserved_shared = 0;      // offset of the bytes that the system keeps for cooperative groups,
  uint32_t reserved_bytes = 0;       // and how many: none where no code of the program asks for the offset
  Address workspace = 0;             // cooperative launches: the grid barrier's memory
  std::atomic<bool> stopped{false};  // a fault: everybody ends
  std::atomic<bool> prior_runs{false},
      holds_at_trigger{false};        // as LaunchConfig has them, until they are over
  std::atomic<bool> cut{false};       // … for lack of time: a sampled launch
  std::atomic<uint64_t> executed{0};  // warp instructions of warps that have ended
  std::mutex fault_mutex;
  FaultInfo fault;
  // The first access that a watched run reported and left out: the launch ends with it, as an unwatched one would.
  FaultInfo left_out;
  std::atomic<bool> has_left_out{false};
  uint64_t clock_begin = 0;            // %clock64 when the launch began
  std::atomic<uint64_t> clock_end{0};  // the latest of the blocks that have ended
  std::mutex print_mutex;
  std::chrono::steady_clock::time_point began{};
  double processor_began = 0;                 // seconds that the process had run by then
  unsigned threads = 1;                       // of the host, that run it
  std::atomic<uint32_t> looks{0};             // calls of Options::still_running
  SiteBounds bounds;                          // watched: where accesses belong, as far as the code tells
  LoopPlan loops;                             // of a sampled launch: where iterations are left out
  const CompiledVariant* compiled = nullptr;  // machine code of the kernel, if there is any

  const std::vector<Listener*>& listeners_of(ptx::Space space) const {
    return access_listeners[static_cast<size_t>(space)];
  }
};

// Seconds that this process has run on processors, all its threads together.
inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A sampled launch starts blocks in its seconds, and ends after so many times as many.
constexpr double kEndOfASample = 2;

// Times as long as it may take that a sampled launch may wait for a processor. Chosen.
constexpr double kMostWaiting = 10;

// Whether a sampled launch has used up its seconds so many times. They are those that it ran: what it shows must not depend
// on what else the machine does.
inline bool is_late(const GridContext& grid, double times) {
  const double limit = times * grid.info.config.seconds;
  if (limit <= 0) return false;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - grid.began).count();
  if (elapsed <= limit) return false;
  return processor_seconds() - grid.processor_began > limit * grid.threads || elapsed > kMostWaiting * limit;
}

// Loads of the running warp that are not delivered yet.
struct PendingLoads {
  static constexpr uint32_t kMost = 256;
  uint32_t count = 0;
  alignas(64) ShapedLoad loads[kMost];
};

// One thread of the host that runs blocks.
struct Worker {
  uint32_t index = 0;  // among the device's
  const Warp* running = nullptr;
  uint32_t rounds = 0;  // of its clusters, since it last looked at the clock
  PendingLoads pending_global, pending_shared;
  std::vector<SiteRange> sites;                // by MemoryForm::site
  uint64_t generation = 0;                     // of Memory when `sites` was cleared
  const Program* program = nullptr;            // that `sites` and `idle` belong to
  uint64_t launch = 0;                         // that `sites` belongs to, where accesses have bounds
  std::vector<std::unique_ptr<Cluster>> idle;  // finished clusters, kept for their memory
};

}  // namespace assay::vgpu
