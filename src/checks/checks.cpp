#include "checks/checks.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "base/symbol.h"
#include "vgpu/grid.h"

namespace assay::checks {

bool FindingLog::counted(const Occurrence& occurrence) {
  if (closed_) return true;
  std::lock_guard lock(mutex_);
  const auto known = by_occurrence_.find(occurrence);
  if (known == by_occurrence_.end()) return false;
  ++findings_[known->second].count;
  return true;
}

void FindingLog::add(const std::string& key, Finding finding, const Occurrence& occurrence) {
  if (closed_) return;
  std::lock_guard lock(mutex_);
  const auto [it, fresh] = by_key_.try_emplace(key, findings_.size());
  by_occurrence_.try_emplace(occurrence, it->second);
  if (fresh) {
    if (report_) report_(finding);
    findings_.push_back(std::move(finding));
    ranks_.push_back(occurrence.rank);
    return;
  }
  Finding& kept = findings_[it->second];
  const uint64_t count = kept.count + 1;
  if (ranks_[it->second] < occurrence.rank) {
    ranks_[it->second] = occurrence.rank;
    kept = std::move(finding);
  }
  kept.count = count;
}

std::vector<Finding> FindingLog::take() {
  std::lock_guard lock(mutex_);
  by_key_.clear();
  by_occurrence_.clear();
  ranks_.clear();
  return std::exchange(findings_, {});
}

namespace {

using ListenerMaker = std::unique_ptr<vgpu::Listener>(FindingLog&, const vgpu::Memory&, protocol::CheckSet);
constexpr ListenerMaker* no_listener = nullptr;

constexpr struct {
  protocol::Check check;
  ListenerMaker* make;
} kMakers[] = {
#define ASSAY_CHECK(id, name, in_run, in_check, listener, summary) {protocol::Check::id, listener},
#include "protocol/checks.def"
#undef ASSAY_CHECK
};

}  // namespace

std::vector<std::unique_ptr<vgpu::Listener>> make_checks(protocol::CheckSet checks, FindingLog& log,
                                                         const vgpu::Memory& memory) {
  std::vector<std::unique_ptr<vgpu::Listener>> made;
  std::set<ListenerMaker*> used;
  for (const auto& [check, make] : kMakers) {
    if (!make || !checks.has(check) || !used.insert(make).second) continue;
    if (auto listener = make(log, memory, checks)) made.push_back(std::move(listener));
  }
  return made;
}

namespace {

void add_frames(const std::vector<vgpu::SourceFrame>& frames, std::vector<Frame>& chain) {
  for (const vgpu::SourceFrame& frame : frames)
    chain.push_back({{frame.file, static_cast<int>(frame.line)}, function_name(frame.function)});
}

// A chain of one frame says no more than the line itself.
std::vector<Frame> worth_showing(std::vector<Frame> chain) {
  if (chain.size() < 2) chain.clear();
  return chain;
}

}  // namespace

CodeAt code_at(const vgpu::Warp& warp, const vgpu::Inst& inst, uint32_t lane) {
  const vgpu::Program& program = *warp.grid->program;
  const vgpu::Frame* frame = warp.frame;
  const vgpu::Function& function = frame ? *frame->function : *warp.grid->entry;
  const auto frames = vgpu::frames_of(program, function, inst);
  const vgpu::SourcePlace place = vgpu::place_of(frames);
  const vgpu::Dim3& extent = warp.grid->info.config.block;
  const uint32_t thread = warp.index * vgpu::kWarpSize + lane;
  CodeAt at;
  at.where = {place.file, static_cast<int>(place.line)};
  at.code.kernel = warp.grid->entry->ptx->name;
  at.code.origin = warp.grid->info.config.origin;
  at.code.block = {warp.block->id[0], warp.block->id[1], warp.block->id[2]};
  at.code.thread = {thread % extent.x, thread / extent.x % extent.y, thread / extent.x / extent.y};
  if (inst.source < function.ptx->body.size())
    at.code.instruction = ptx::print(program.module, *function.ptx, function.ptx->body[inst.source]);
  std::vector<Frame> chain;
  add_frames(frames, chain);
  for (; frame && frame->caller && !frames.empty(); frame = frame->caller) {
    const size_t call = chain.size();
    add_frames(vgpu::frames_of(program, *frame->caller->function, frame->return_to[-1]), chain);
    if (chain.size() > call) chain[call].called = true;
  }
  at.code.chain = worth_showing(std::move(chain));
  return at;
}

Finding finding_of(Kind kind, Where where, Evidence evidence) {
  return {.kind = kind,
          .severity = info(kind).severity,
          .where = std::move(where),
          .evidence = std::move(evidence)};
}

std::vector<Frame> chain_of(const std::vector<vgpu::SourceFrame>& frames) {
  std::vector<Frame> chain;
  add_frames(frames, chain);
  return worth_showing(std::move(chain));
}

std::string key_of(Kind kind, const vgpu::Warp& warp, const vgpu::Inst& inst) {
  const vgpu::Function& function = warp.frame ? *warp.frame->function : *warp.grid->entry;
  const vgpu::SourcePlace place = vgpu::place_of(*warp.grid->program, function, inst);
  return fmt::format("{}|{}|{}|{}", to_string(kind), warp.grid->entry->ptx->name, place.file,
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

evidence::Allocation allocation_of(const vgpu::Allocation& allocation) {
  return {.label = allocation.label, .bytes = allocation.size, .id = allocation.id, .live = allocation.live};
}

evidence::Place place_of(const vgpu::Memory& memory, vgpu::Address address) {
  evidence::Place place;
  place.address = address;
  const auto near = memory.nearest(address);
  const bool far = !near || (address >= near->end() && address - near->end() > kNear);
  if (far && !memory.is_device_address(address)) {
    place.is_host_memory = is_mapped(address);
    return place;
  }
  if (!near) return place;
  place.allocation = allocation_of(*near);
  place.offset = static_cast<int64_t>(address - near->base);
  return place;
}

evidence::Space space_of(ptx::Space space) {
  switch (space) {
    case ptx::Space::Generic:
      return evidence::Space::Generic;
    case ptx::Space::Global:
      return evidence::Space::Global;
    case ptx::Space::Shared:
      return evidence::Space::Shared;
    case ptx::Space::Local:
      return evidence::Space::Local;
    case ptx::Space::Const:
      return evidence::Space::Constant;
    case ptx::Space::Param:
      return evidence::Space::Parameter;
    default:
      return evidence::Space::None;
  }
}

evidence::AccessKind access_of(vgpu::AccessKind kind) {
  switch (kind) {
    case vgpu::AccessKind::Load:
      return evidence::AccessKind::Read;
    case vgpu::AccessKind::Store:
      return evidence::AccessKind::Write;
    default:
      return evidence::AccessKind::Atomic;
  }
}

}  // namespace assay::checks
