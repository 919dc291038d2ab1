#include "checks/checks.h"

#include <fmt/format.h>

#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

constexpr CheckInfo kChecks[] = {
    {"memory", "accesses outside live memory, and misaligned ones", make_memory_check},
    {"init", "results that depend on undefined values", make_init_check},
    {"races", "accesses to the same memory that nothing orders", make_race_check},
    {"sync", "barriers and warp-synchronous operations that not all the threads they name reach", make_sync_check},
};

std::string names() {
  std::string text;
  for (const CheckInfo& check : kChecks) text += fmt::format("{}{}", text.empty() ? "" : ", ", check.name);
  return text;
}

const CheckInfo* find(std::string_view name) {
  for (const CheckInfo& check : kChecks)
    if (check.name == name) return &check;
  return nullptr;
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
    findings_.push_back(std::move(finding));
    counts_.push_back(1);
  } else {
    ++counts_[it->second];
  }
}

std::vector<Finding> FindingLog::take() {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < findings_.size(); ++i) findings_[i].evidence["count"] = counts_[i];
  by_key_.clear();
  by_occurrence_.clear();
  counts_.clear();
  return std::exchange(findings_, {});
}

std::span<const CheckInfo> all_checks() { return kChecks; }

Result<std::vector<std::unique_ptr<vgpu::Listener>>> make_checks(std::string_view list, FindingLog& log,
                                                                 const vgpu::Memory& memory) {
  std::vector<std::unique_ptr<vgpu::Listener>> made;
  if (list == "none" || list.empty()) return made;
  if (list == "all") {
    for (const CheckInfo& check : kChecks) made.push_back(check.make(log, memory));
    return made;
  }
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const CheckInfo* check = find(name);
    if (!check) return Error{fmt::format("unknown check '{}'; the checks are: all, none, {}", name, names())};
    made.push_back(check->make(log, memory));
  }
  return made;
}

Finding finding_at(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst, uint32_t lane) {
  const vgpu::Program& program = *warp.grid->program;
  const vgpu::Frame* frame = warp.frame;
  const vgpu::Function& function = frame ? *frame->function : *warp.grid->entry;
  const vgpu::SourcePlace place = vgpu::place_of(program, function, inst);
  const vgpu::Dim3& extent = warp.grid->info.config.block;
  const uint32_t thread = warp.index * vgpu::kWarpSize + lane;
  Finding finding;
  finding.kind = kind;
  finding.where = {place.file, static_cast<int>(place.line)};
  finding.evidence["kernel"] = warp.grid->entry->ptx->name;
  finding.evidence["block"] = {warp.block->id[0], warp.block->id[1], warp.block->id[2]};
  finding.evidence["thread"] = {thread % extent.x, thread / extent.x % extent.y, thread / extent.x / extent.y};
  if (inst.source < function.ptx->body.size())
    finding.evidence["instruction"] = ptx::print(program.module, *function.ptx, function.ptx->body[inst.source]);
  return finding;
}

std::string key_of(std::string_view kind, const vgpu::Warp& warp, const vgpu::Inst& inst) {
  const vgpu::Function& function = warp.frame ? *warp.frame->function : *warp.grid->entry;
  const vgpu::SourcePlace place = vgpu::place_of(*warp.grid->program, function, inst);
  return fmt::format("{}|{}|{}|{}", kind, warp.grid->entry->ptx->name, place.file,
                     place.line ? place.line : inst.index);
}

std::string describe_address(const vgpu::Memory& memory, vgpu::Address address, Json& evidence) {
  evidence["address"] = fmt::format("0x{:x}", address);
  const auto near = memory.nearest(address);
  if (!near) return fmt::format("0x{:x}, far from every allocation", address);
  evidence["allocation"] = {{"label", near->label}, {"bytes", near->size}, {"id", near->id}, {"live", near->live}};
  const std::string name = fmt::format("`{}` (allocation {}, {} bytes)", near->label, near->id, near->size);
  if (address >= near->base && address < near->end()) {
    evidence["offset"] = address - near->base;
    return near->live ? fmt::format("offset {} of {}", address - near->base, name)
                      : fmt::format("offset {} of {}, which has been freed", address - near->base, name);
  }
  if (address >= near->end()) return fmt::format("{} bytes past the end of {}", address - near->end(), name);
  return fmt::format("{} bytes before {}", near->base - address, name);
}

}  // namespace assay::checks
