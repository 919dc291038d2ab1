// The checks of the virtual GPU. Each is a listener in a file of its own; together they turn the engine's
// events into findings. A defect that occurs many times is one finding with a count.
//
// Example:
//
//     FindingLog log;
//     auto checks = make_checks(protocol::CheckSet::for_run(), log, device.memory());
//     for (auto& check : checks) device.listen(check.get());
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "finding/finding.h"
#include "protocol/checks.h"
#include "vgpu/device.h"
#include "vgpu/program.h"

namespace assay::checks {

// What makes two findings the same, cheaply: the kind and the instructions involved.
struct Occurrence {
  Kind kind{};
  const void* here = nullptr;
  const void* other = nullptr;
  int rank = 0;  // of several findings under one key, the one of the highest rank is kept
  auto operator<=>(const Occurrence&) const =
      default;  // NOLINT(modernize-use-nullptr): its own comparison with 0
};

class FindingLog {
 public:
  // Calls `report` with each finding when it first occurs, before its count is known: the launch that it
  // belongs to may never end.
  void report_early(std::function<void(const Finding&)> report) { report_ = std::move(report); }
  // Keeps the first finding of the highest rank under a key, and counts the others.
  void add(const std::string& key, Finding finding, const Occurrence& occurrence);
  // Counts one more of an occurrence that was added before; false if it was not. A defect may occur millions
  // of times: evidence is collected for the first only.
  bool counted(const Occurrence& occurrence);
  // The findings since the last take, in the order of arrival.
  std::vector<Finding> take();
  // While it is closed, nothing is added: what happens follows from something that no program did (block_sample.h).
  void close() { closed_ = true; }
  void open() { closed_ = false; }

 private:
  std::atomic<bool> closed_{false};
  std::function<void(const Finding&)> report_;
  std::mutex mutex_;
  std::vector<Finding> findings_;
  std::vector<int> ranks_;
  std::map<std::string, size_t> by_key_;
  std::map<Occurrence, size_t> by_occurrence_;
};

// The listeners of these checks (protocol/checks.def).
std::vector<std::unique_ptr<vgpu::Listener>> make_checks(protocol::CheckSet checks, FindingLog& log,
                                                         const vgpu::Memory& memory);

// ---- For the checks' own files ----

// The instruction of a running warp: its source line, and kernel, block and thread.
struct CodeAt {
  Where where;
  evidence::CodePlace code;
};
CodeAt code_at(const vgpu::Warp& warp, const vgpu::Inst& inst, uint32_t lane);
// A finding with the usual severity of its kind.
Finding finding_of(Kind kind, Where where, Evidence evidence);
// One for each kind, kernel and line.
std::string key_of(Kind kind, const vgpu::Warp& warp, const vgpu::Inst& inst);
// The functions through which code was inlined; empty where it was not.
std::vector<Frame> chain_of(const std::vector<vgpu::SourceFrame>& frames);
// A place in device memory, by the nearest allocation.
evidence::Place place_of(const vgpu::Memory& memory, vgpu::Address address);
evidence::Allocation allocation_of(const vgpu::Allocation& allocation);
evidence::Space space_of(ptx::Space space);
evidence::AccessKind access_of(vgpu::AccessKind kind);

// The listeners that checks.def names; null where none of `checks` needs it.
using protocol::CheckSet;
std::unique_ptr<vgpu::Listener> make_memory_check(FindingLog&, const vgpu::Memory&, CheckSet checks);
std::unique_ptr<vgpu::Listener> make_init_check(FindingLog&, const vgpu::Memory&, CheckSet checks);
std::unique_ptr<vgpu::Listener> make_sync_check(FindingLog&, const vgpu::Memory&, CheckSet checks);
// Races and stream order are one listener: they share what they remember of memory.
std::unique_ptr<vgpu::Listener> make_race_check(FindingLog&, const vgpu::Memory&, CheckSet checks);

struct RaceScope {
  bool within_launches = true, between_operations = true;
  bool same_values = false;  // notes about unordered stores of the value that is there
  bool vectors = true;       // where the host has them; word by word otherwise
};
std::unique_ptr<vgpu::Listener> make_race_check(FindingLog&, const vgpu::Memory&, RaceScope scope);

}  // namespace assay::checks
