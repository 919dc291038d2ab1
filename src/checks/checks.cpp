#include "checks/checks.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/symbol.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

constexpr CheckInfo kChecks[] = {
    {"memory", "accesses outside live memory, and misaligned ones"},
    {"init", "results that depend on undefined values"},
    {"races", "accesses to the same memory that nothing orders, within a launch"},
    {"streams", "the same between kernels, copies and fills"},
    {"sync", "barriers and warp-synchronous operations that not all the threads they name reach"},
    {"same-value", "notes about unordered stores of the value that is there; not part of all", true},
    {"launches", "failed launches that nobody asked about, results that nobody waited for, leaks"},
};

std::string names() {
  std::string text;
  for (const CheckInfo& check : kChecks) text += fmt::format("{}{}", text.empty() ? "" : ", ", check.name);
  return text;
}

bool is_check(std::string_view name) {
  return std::any_of(std::begin(kChecks), std::end(kChecks),
                     [&](const CheckInfo& c) { return c.name == name; });
}

// Calls `use` with each name of a list.
template <class Use>
void for_names(std::string_view list, Use use) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    use(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

}  // namespace

bool FindingLog::counted(const Occurrence& occurrence) {
  std::lock_guard lock(mutex_);
  const auto known = by_occurrence_.find(occurrence);
  if (known == by_occurrence_.end()) return false;
  ++counts_[known->second];
  return true;
}

void FindingLog::add(const std::string& key, Finding finding, const Occurrence& occurrence) {
  std::lock_guard lock(mutex_);
  const auto [it, fresh] = by_key_.try_emplace(key, findings_.size());
  by_occurrence_.try_emplace(occurrence, it->second);
  if (fresh) {
    if (hear_) hear_(finding);
    findings_.push_back(std::move(finding));
    counts_.push_back(1);
    ranks_.push_back(occurrence.rank);
  } else {
    ++counts_[it->second];
    if (ranks_[it->second] >= occurrence.rank) return;
    ranks_[it->second] = occurrence.rank;
    findings_[it->second] = std::move(finding);
  }
}

std::vector<Finding> FindingLog::take() {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < findings_.size(); ++i) findings_[i].evidence["count"] = counts_[i];
  by_key_.clear();
  by_occurrence_.clear();
  counts_.clear();
  ranks_.clear();
  return std::exchange(findings_, {});
}

std::span<const CheckInfo> all_checks() {
  return kChecks;
}

bool includes(std::string_view list, std::string_view check) {
  bool found = false;
  const bool on_request = std::any_of(std::begin(kChecks), std::end(kChecks),
                                      [&](const CheckInfo& c) { return c.name == check && c.on_request; });
  for_names(list, [&](std::string_view name) { found |= name == check || (name == "all" && !on_request); });
  return found;
}

Result<std::vector<std::unique_ptr<vgpu::Listener>>> make_checks(std::string_view list, FindingLog& log,
                                                                 const vgpu::Memory& memory) {
  std::string unknown;
  for_names(list, [&](std::string_view name) {
    if (name != "all" && name != "none" && !is_check(name)) unknown = name;
  });
  if (!unknown.empty())
    return Error{fmt::format("unknown check '{}'; the checks are: all, none, {}", unknown, names())};
  std::vector<std::unique_ptr<vgpu::Listener>> made;
  const RaceScope scope{includes(list, "races"), includes(list, "streams"), includes(list, "same-value"),
                        true};
  if (scope.within_launches || scope.between_operations) made.push_back(make_race_check(log, memory, scope));
  if (includes(list, "memory")) made.push_back(make_memory_check(log, memory));
  if (includes(list, "init")) made.push_back(make_init_check(log, memory));
  if (includes(list, "sync")) made.push_back(make_sync_check(log, memory));
  return made;
}

namespace {

void add_frames(const std::vector<vgpu::SourceFrame>& frames, Json& chain) {
  for (const vgpu::SourceFrame& frame : frames)
    chain.push_back(
        {{"file", frame.file}, {"line", frame.line}, {"function", function_name(frame.function)}});
}

}  // namespace

Finding finding_at(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst, uint32_t lane) {
  const vgpu::Program& program = *warp.grid->program;
  const vgpu::Frame* frame = warp.frame;
  const vgpu::Function& function = frame ? *frame->function : *warp.grid->entry;
  const auto frames = vgpu::frames_of(program, function, inst);
  const vgpu::SourcePlace place = vgpu::place_of(frames);
  const vgpu::Dim3& extent = warp.grid->info.config.block;
  const uint32_t thread = warp.index * vgpu::kWarpSize + lane;
  Finding finding;
  finding.kind = kind;
  finding.where = {place.file, static_cast<int>(place.line)};
  finding.evidence["kernel"] = warp.grid->entry->ptx->name;
  finding.evidence["block"] = {warp.block->id[0], warp.block->id[1], warp.block->id[2]};
  finding.evidence["thread"] = {thread % extent.x, thread / extent.x % extent.y,
                                thread / extent.x / extent.y};
  if (inst.source < function.ptx->body.size())
    finding.evidence["instruction"] =
        ptx::print(program.module, *function.ptx, function.ptx->body[inst.source]);
  Json chain = Json::array();
  add_frames(frames, chain);
  for (; frame && frame->caller && !frames.empty(); frame = frame->caller) {
    const size_t call = chain.size();
    add_frames(vgpu::frames_of(program, *frame->caller->function, frame->return_to[-1]), chain);
    if (chain.size() > call) chain[call]["called"] = true;
  }
  if (chain.size() > 1) finding.evidence["chain"] = std::move(chain);
  return finding;
}

Json chain_of(const std::vector<vgpu::SourceFrame>& frames) {
  if (frames.size() < 2) return nullptr;
  Json chain = Json::array();
  add_frames(frames, chain);
  return chain;
}

std::string key_of(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst) {
  const vgpu::Function& function = warp.frame ? *warp.frame->function : *warp.grid->entry;
  const vgpu::SourcePlace place = vgpu::place_of(*warp.grid->program, function, inst);
  return fmt::format("{}|{}|{}|{}", kind, warp.grid->entry->ptx->name, place.file,
                     place.line ? place.line : inst.index);
}

namespace {

constexpr uint64_t kNear = 1 << 20;  // bytes; what lies further away has nothing to do with an allocation

// Whether this process has memory there.
bool is_mapped(vgpu::Address address) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

}  // namespace

std::string describe_address(const vgpu::Memory& memory, vgpu::Address address, Json& evidence) {
  evidence["address"] = fmt::format("0x{:x}", address);
  const auto near = memory.nearest(address);
  const bool far = !near || (address >= near->end() && address - near->end() > kNear);
  if (far && !memory.is_device_address(address))
    return fmt::format("0x{:x}, {}", address,
                       is_mapped(address) ? "memory of the host that the device does not know"
                                          : "far from every allocation");
  if (!near) return fmt::format("0x{:x}, far from every allocation", address);
  evidence["allocation"] = {
      {"label", near->label}, {"bytes", near->size}, {"id", near->id}, {"live", near->live}};
  const std::string name = fmt::format("`{}` (allocation {}, {} bytes)", near->label, near->id, near->size);
  if (address >= near->base && address < near->end()) {
    evidence["offset"] = address - near->base;
    return near->live ? fmt::format("offset {} of {}", address - near->base, name)
                      : fmt::format("offset {} of {}, which has been freed", address - near->base, name);
  }
  if (address == near->end()) return "just past the end of " + name;
  if (address > near->end()) return fmt::format("{} bytes past the end of {}", address - near->end(), name);
  return fmt::format("{} bytes before {}", near->base - address, name);
}

}  // namespace assay::checks
