#include "checks/race_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_set>
#include <vector>

#include "checks/wait_loops.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

using RegisterSet = std::unordered_set<uint32_t>;

void add_registers(const ptx::Operand& operand, RegisterSet& to) {
  using Kind = ptx::Operand::Kind;
  if (operand.index != ptx::kNone && (operand.kind == Kind::Register || operand.kind == Kind::Address))
    to.insert(operand.index);
  for (const ptx::Operand& element : operand.elements) add_registers(element, to);
}

bool carries(const ptx::Operand& operand, const RegisterSet& carriers) {
  RegisterSet used;
  add_registers(operand, used);
  return std::any_of(used.begin(), used.end(), [&](uint32_t r) { return carriers.count(r) > 0; });
}

bool uses(const ptx::Instruction& inst, const RegisterSet& carriers) {
  return std::any_of(inst.operands.begin() + 1, inst.operands.end(),
                     [&](const ptx::Operand& operand) { return carries(operand, carriers); });
}

bool is_barrier(const ptx::Instruction& inst, Barriers counts) {
  using ptx::Opcode;
  constexpr Opcode kBarriers[] = {Opcode::bar_sync, Opcode::bar_red, Opcode::barrier_sync,
                                  Opcode::barrier_red};
  if (inst.opcode == Opcode::bar_warp_sync) return counts == Barriers::Warp;
  return counts != Barriers::None &&
         std::find(std::begin(kBarriers), std::end(kBarriers), inst.opcode) != std::end(kBarriers);
}

// Whether a way leads from one of some instructions to one of others that passes no barrier.
bool is_reached_without_barrier(const ptx::Function& function, std::span<const size_t> from,
                                std::span<const size_t> to, Barriers counts) {
  using ptx::Opcode;
  const auto& body = function.body;
  std::vector<bool> seen(body.size(), false);
  std::vector<size_t> open;
  for (const size_t at : from) open.push_back(at + 1);
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (std::find(to.begin(), to.end(), at) != to.end()) return true;
    if (at >= body.size() || seen[at]) continue;
    seen[at] = true;
    const ptx::Instruction& inst = body[at];
    if (inst.opcode == Opcode::brx_idx) return true;
    if (is_barrier(inst, counts) && inst.guard == ptx::kNone) continue;
    for (const ptx::Operand& operand : inst.operands)
      if (operand.kind == ptx::Operand::Kind::Label) open.push_back(operand.index);
    const bool leaves =
        inst.opcode == Opcode::bra || inst.opcode == Opcode::ret || inst.opcode == Opcode::exit;
    if (!leaves || inst.guard != ptx::kNone) open.push_back(at + 1);
  }
  return false;
}

// Whether the value of a load goes through arithmetic into selp and nowhere else: a load that the compiler
// moved out of a condition, whose value some threads discard. Where both choices come from it, none does, and
// no compiler moves a load over a barrier.
bool was_hoisted(const ptx::Function& function, uint32_t source) {
  using Kind = ptx::Operand::Kind;
  using ptx::Opcode;
  const auto& body = function.body;
  if (source >= body.size() || body[source].operands.empty()) return false;
  RegisterSet carriers;
  add_registers(body[source].operands[0], carriers);
  bool selected = false;
  for (size_t i = source + 1; i < body.size() && !carriers.empty(); ++i) {
    const ptx::Instruction& inst = body[i];
    if (inst.guard != ptx::kNone && carriers.count(inst.guard)) return false;
    if (inst.operands.empty()) continue;
    const Kind kind = inst.operands[0].kind;
    if (!uses(inst, carriers)) {
      if (kind == Kind::Register && inst.guard == ptx::kNone) carriers.erase(inst.operands[0].index);
      continue;
    }
    if (inst.opcode == Opcode::selp) {
      if (carries(inst.operands[1], carriers) && carries(inst.operands[2], carriers)) return false;
      const size_t here = source;
      if (!is_reached_without_barrier(function, {&here, 1}, {&i, 1}, Barriers::Warp)) return false;
      selected = true;
      continue;
    }
    constexpr Opcode kEnds[] = {Opcode::setp,      Opcode::ld,   Opcode::atom,
                                Opcode::shfl_sync, Opcode::call, Opcode::bar_sync};
    const bool ends = std::find(std::begin(kEnds), std::end(kEnds), inst.opcode) != std::end(kEnds);
    if (ends || (kind != Kind::Register && kind != Kind::Vector)) return false;
    add_registers(inst.operands[0], carriers);
  }
  return selected;
}

// The selp that alone sees the value of a hoisted load, where it comes straight after it and its predicate is
// older than the load. What it picks must be used by more than another selp.
Chooser chooser_of(const vgpu::Function& function, uint32_t source) {
  using Kind = ptx::Operand::Kind;
  using ptx::Opcode;
  const auto& body = function.ptx->body;
  if (body[source].operands[0].kind != Kind::Register) return {};
  const RegisterSet loaded{body[source].operands[0].index};
  constexpr Opcode kLeaves[] = {Opcode::bra, Opcode::brx_idx, Opcode::call, Opcode::ret, Opcode::exit};
  RegisterSet changed;
  for (size_t i = source + 1; i < body.size(); ++i) {
    const ptx::Instruction& inst = body[i];
    if (std::find(std::begin(kLeaves), std::end(kLeaves), inst.opcode) != std::end(kLeaves)) return {};
    if (inst.operands.empty()) continue;
    if (uses(inst, loaded)) {
      if (inst.opcode != Opcode::selp || inst.guard != ptx::kNone) return {};
      const ptx::Operand& predicate = inst.operands[3];
      const bool first = carries(inst.operands[1], loaded), second = carries(inst.operands[2], loaded);
      if (first == second || predicate.kind != Kind::Register || changed.count(predicate.index)) return {};
      if (was_hoisted(*function.ptx, static_cast<uint32_t>(i))) return {};
      return {function.register_planes.at(predicate.index), true, first};
    }
    add_registers(inst.operands[0], changed);
    if (changed.count(*loaded.begin())) return {};
    if (inst.opcode == Opcode::setp && inst.operands.size() > 1) add_registers(inst.operands[1], changed);
  }
  return {};
}

const ptx::Operand* address_of(const ptx::Instruction& inst) {
  for (const ptx::Operand& operand : inst.operands)
    if (operand.kind == ptx::Operand::Kind::Address) return &operand;
  return nullptr;
}

// Whether two instructions, the first above the second, use the same address: the same register, which nothing
// between them sets, and the same offset.
bool have_one_address(const ptx::Function& function, size_t first, size_t second) {
  const auto& body = function.body;
  if (first >= second || second >= body.size()) return false;
  const ptx::Operand *a = address_of(body[first]), *b = address_of(body[second]);
  if (!a || !b || a->index == ptx::kNone || a->index != b->index || a->offset != b->offset) return false;
  return std::none_of(body.begin() + static_cast<ptrdiff_t>(first),
                      body.begin() + static_cast<ptrdiff_t>(second), [&](const ptx::Instruction& inst) {
                        return !inst.operands.empty() &&
                               inst.operands[0].kind != ptx::Operand::Kind::Address &&
                               carries(inst.operands[0], {a->index});
                      });
}

bool is_noncoherent(const ptx::Function& function, uint32_t source) {
  if (source >= function.body.size()) return false;
  const ptx::Instruction& inst = function.body[source];
  return inst.has(ptx::Mod::nc) || inst.opcode == ptx::Opcode::ldu;
}

bool is_volatile(const ptx::Function& function, uint32_t source) {
  return source < function.body.size() && function.body[source].has(ptx::Mod::volatile_);
}

// The warp may have gone on to another since.
const vgpu::Function& function_of(const vgpu::Warp& warp, const vgpu::Inst& inst) {
  const auto has = [&](const vgpu::Function& f) {
    return &inst >= f.code.data() && &inst < f.code.data() + f.code.size();
  };
  const vgpu::Function& running = *warp.frame->function;
  const auto& all = warp.grid->program->functions;
  const auto found = has(running) ? all.end() : std::find_if(all.begin(), all.end(), has);
  return found == all.end() ? running : *found;
}

}  // namespace

uint32_t Chooser::picked(const vgpu::Warp& warp) const {
  const uint32_t holds = *reinterpret_cast<const uint32_t*>(warp.planes + predicate);
  return when ? holds : ~holds;
}

uint64_t RaceSites::new_version() {
  static std::atomic<uint64_t> versions{0};
  return ++versions;
}

RaceSites::Known RaceSites::look_up(const vgpu::Warp& warp, const vgpu::Inst& inst, vgpu::AccessKind kind,
                                    bool asynchronous) {
  std::lock_guard lock(mutex_);
  const auto [it, fresh] = by_instruction_.try_emplace(&inst);
  if (!fresh) return it->second;
  const vgpu::Program& program = *warp.grid->program;
  const vgpu::Function& function = function_of(warp, inst);
  RaceSite site;
  site.frames = vgpu::frames_of(program, function, inst);
  const vgpu::SourcePlace place = vgpu::place_of(site.frames);
  site.file = place.file;
  site.line = place.line;
  site.where = vgpu::where(program, function, inst);
  site.kind = kind;
  site.asynchronous = asynchronous;
  if (place.line) site.where = fmt::format("{}:{}", place.file, place.line);
  site.hoisted = kind == vgpu::AccessKind::Load && was_hoisted(*function.ptx, inst.source);
  if (site.hoisted) it->second.chooser = chooser_of(function, inst.source);
  site.hoisted &= !it->second.chooser.known;
  site.noncoherent = it->second.noncoherent = is_noncoherent(*function.ptx, inst.source);
  it->second.awaited = kind == vgpu::AccessKind::Load && is_volatile(*function.ptx, inst.source) &&
                       is_awaited(*function.ptx, inst.source);
  std::string key = fmt::format("{}|{}|{}|{}|{}", warp.grid->entry->ptx->name, site.where,
                                static_cast<int>(site.kind), site.hoisted, site.asynchronous);
  if (sites_.size() < kMostSites / 2)  // while there is room, code that is inlined in two places is two sites
    for (const vgpu::SourceFrame& frame : site.frames) key += fmt::format("|{}:{}", frame.file, frame.line);
  const auto [known, unknown] = by_place_.try_emplace(key, static_cast<uint32_t>(sites_.size()));
  if (unknown) {
    if (sites_.size() > kMostSites) {
      known->second = 0;
    } else {
      hoisted_[sites_.size()] = site.hoisted;
      sites_.push_back(std::move(site));
    }
  }
  it->second.number = known->second;
  Code& code = code_[known->second];
  if (!code.function) code.function = function.ptx;
  if (code.function == function.ptx) code.sources.push_back(inst.source);
  return it->second;
}

const RaceSite* RaceSites::at(uint32_t number) const {
  std::lock_guard lock(mutex_);
  return number && number < sites_.size() ? &sites_[number] : nullptr;
}

bool RaceSites::is_reached(uint32_t from, uint32_t to, Barriers counts) const {
  std::lock_guard lock(mutex_);
  const auto a = code_.find(from), b = code_.find(to);
  if (a == code_.end() || b == code_.end() || a->second.function != b->second.function) return false;
  return is_reached_without_barrier(*a->second.function, a->second.sources, b->second.sources, counts);
}

bool RaceSites::is_update(uint32_t load, uint32_t store) const {
  std::lock_guard lock(mutex_);
  const auto a = code_.find(load), b = code_.find(store);
  if (a == code_.end() || b == code_.end() || a->second.function != b->second.function) return false;
  const auto& loads = a->second.sources;
  return std::all_of(b->second.sources.begin(), b->second.sources.end(), [&](size_t to) {
    return std::any_of(loads.begin(), loads.end(),
                       [&](size_t from) { return have_one_address(*a->second.function, from, to); });
  });
}

void RaceSites::forget_instructions() {
  std::lock_guard lock(mutex_);
  by_instruction_.clear();
  code_.clear();
  version_ = new_version();
}

}  // namespace assay::checks
