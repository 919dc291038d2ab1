// What watches the virtual GPU. Each check is a listener in a file of its own; together they turn what
// the engine sees into findings. A defect that shows many times is one finding with a count.
//
//     FindingLog log;
//     auto checks = make_checks("all", log, device.memory());
//     for (auto& check : *checks) device.listen(check.get());
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "vgpu/device.h"
#include "vgpu/program.h"

namespace assay::checks {

// What makes two findings the same, cheaply: the kind and the instructions that meet.
struct Occurrence {
  std::string_view kind;
  const void* here = nullptr;
  const void* other = nullptr;
  int rank = 0;  // of several under one key, that of the highest rank is told
  auto operator<=>(const Occurrence&) const = default;
};

class FindingLog {
 public:
  // Calls `hear` with each finding when it first shows, before it is known how often it will: the launch that
  // it belongs to may never end.
  void tell(std::function<void(const Finding&)> hear) { hear_ = std::move(hear); }
  // Keeps the first finding of the highest rank under a key and counts the others: evidence["count"].
  void add(const std::string& key, Finding finding, const Occurrence& occurrence);
  // Counts one more of an occurrence that was added before; false if it was not. A defect may show
  // millions of times: only the first is worth its text.
  bool counted(const Occurrence& occurrence);
  // What has come since the last take, in the order of arrival.
  std::vector<Finding> take();

 private:
  std::function<void(const Finding&)> hear_;
  std::mutex mutex_;
  std::vector<Finding> findings_;
  std::vector<uint64_t> counts_;
  std::vector<int> ranks_;
  std::map<std::string, size_t> by_key_;
  std::map<Occurrence, size_t> by_occurrence_;
};

struct CheckInfo {
  std::string_view name, summary;
  bool on_request = false;  // not part of "all"
};
std::span<const CheckInfo> all_checks();

// `list`: "all", "none", or names with commas. An unknown name is an error that lists the known ones.
Result<std::vector<std::unique_ptr<vgpu::Listener>>> make_checks(std::string_view list, FindingLog& log,
                                                                 const vgpu::Memory& memory);
// Whether a (valid) list names a check.
bool includes(std::string_view list, std::string_view check);

// ---- For the checks' own files ----

// A finding about an instruction of a running warp: kernel, line, block and thread are filled in.
Finding finding_at(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst, uint32_t lane);
// One for each kind, kernel and line.
std::string key_of(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst);
// Where inlined code comes from (base/chain.h); null where it is not inlined.
Json chain_of(const std::vector<vgpu::SourceFrame>& frames);
// "12 bytes past the end of `x` (allocation 3, 4096 bytes)".
std::string describe_address(const vgpu::Memory& memory, vgpu::Address address, Json& evidence);

std::unique_ptr<vgpu::Listener> make_memory_check(FindingLog&, const vgpu::Memory&);
std::unique_ptr<vgpu::Listener> make_init_check(FindingLog&, const vgpu::Memory&);
// Races and stream order are one listener: they share what they remember of memory.
struct RaceScope {
  bool within_launches = true, between_operations = true;
  bool same_values = false;  // notes about unordered stores of the value that is there
  bool vectors = true;       // where the host has them; word by word otherwise
};
std::unique_ptr<vgpu::Listener> make_race_check(FindingLog&, const vgpu::Memory&, RaceScope scope);
std::unique_ptr<vgpu::Listener> make_sync_check(FindingLog&, const vgpu::Memory&);

}  // namespace assay::checks
