#include "vgpu/provenance.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace assay::vgpu {

namespace {

using ptx::Mod;
using ptx::Opcode;

constexpr uint32_t kPointerBytes = 8;
constexpr size_t kMostFollowed = 50000;  // of a function that is looked at

// What a register holds: a sum of pointers (by their place in the parameters) and of plain numbers.
struct Origin {
  enum class State : uint8_t { Unset, Known, Unknown } state = State::Unset;
  std::map<uint32_t, int> pointers;  // how often; empty: a number

  bool operator==(const Origin&) const = default;
  bool is_number() const { return state == State::Known && pointers.empty(); }
};

const Origin kNumber{Origin::State::Known, {}};
const Origin kUnknown{Origin::State::Unknown, {}};

Origin join(const Origin& a, const Origin& b) {
  if (a.state == Origin::State::Unset) return b;
  if (b.state == Origin::State::Unset || a == b) return a;
  return kUnknown;
}

Origin sum(const Origin& a, const Origin& b, int sign) {
  if (a.state == Origin::State::Unset || b.state == Origin::State::Unset) return {};
  if (a.state == Origin::State::Unknown || b.state == Origin::State::Unknown) return kUnknown;
  Origin result = a;
  for (const auto& [pointer, times] : b.pointers)
    if ((result.pointers[pointer] += sign * times) == 0) result.pointers.erase(pointer);
  return result;
}

bool is_memory_load(Opcode opcode) {
  return opcode == Opcode::ld || opcode == Opcode::ldu || opcode == Opcode::atom;
}

class Follow {
 public:
  Follow(const Function& kernel, std::span<const uint32_t> pointers)
      : kernel_(kernel), code_(*kernel.ptx), pointers_(pointers), registers_(code_.registers.size()) {}

  std::vector<SiteOrigin> run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const ptx::Instruction& inst : code_.body) changed |= follow(inst);
    }
    std::vector<SiteOrigin> found;
    for (const auto& [site, source] : kernel_.sites) {
      const ptx::Operand* address = address_of(code_.body[source]);
      if (!address || address->base != ptx::Operand::Base::Register) continue;
      const Origin& origin = registers_[address->index];
      if (origin.pointers.size() == 1 && origin.pointers.begin()->second == 1)
        found.push_back({site, source, origin.pointers.begin()->first});
    }
    return found;
  }

 private:
  const Function& kernel_;
  const ptx::Function& code_;
  const std::span<const uint32_t> pointers_;
  std::vector<Origin> registers_;

  // The one address of a plain access to device memory.
  static const ptx::Operand* address_of(const ptx::Instruction& inst) {
    if (!is_memory_load(inst.opcode) && inst.opcode != Opcode::st && inst.opcode != Opcode::red)
      return nullptr;
    for (const Mod space : {Mod::param, Mod::param_entry, Mod::param_func, Mod::const_, Mod::shared,
                            Mod::shared_cta, Mod::shared_cluster, Mod::local})
      if (inst.has(space)) return nullptr;
    const ptx::Operand* found = nullptr;
    for (const ptx::Operand& operand : inst.operands) {
      if (operand.kind != ptx::Operand::Kind::Address) continue;
      if (found) return nullptr;
      found = &operand;
    }
    return found;
  }

  bool define(uint32_t reg, const Origin& origin) {
    if (reg >= registers_.size()) return false;
    Origin now = join(registers_[reg], origin);
    if (now == registers_[reg]) return false;
    registers_[reg] = std::move(now);
    return true;
  }

  bool follow(const ptx::Instruction& inst) {
    if (inst.operands.empty() || inst.opcode == Opcode::st || inst.opcode == Opcode::red) return false;
    const ptx::Operand& to = inst.operands[0];
    bool changed = false;
    if (to.kind == ptx::Operand::Kind::Register) changed |= define(to.index, result_of(inst, 0));
    if (to.pair != ptx::kNone) changed |= define(to.pair, kNumber);
    if (to.kind != ptx::Operand::Kind::Vector && to.kind != ptx::Operand::Kind::List) return changed;
    for (uint32_t e = 0; e < to.elements.size(); ++e)
      changed |= define(to.elements[e].index, result_of(inst, e));
    return changed;
  }

  Origin of(const ptx::Operand& operand) const {
    switch (operand.kind) {
      case ptx::Operand::Kind::Register:
        return operand.index < registers_.size() ? registers_[operand.index] : kUnknown;
      case ptx::Operand::Kind::Immediate:
      case ptx::Operand::Kind::Special:
        return kNumber;
      case ptx::Operand::Kind::Vector: {
        Origin all = kNumber;
        for (const ptx::Operand& element : operand.elements) {
          const Origin one = of(element);
          if (!one.is_number()) all = one.state == Origin::State::Unset ? one : kUnknown;
        }
        return all;
      }
      default:
        return kUnknown;
    }
  }

  // A parameter by its place: a pointer, or a number. Which one an index in a register picks is not known.
  Origin parameter(const ptx::Instruction& inst, uint32_t element) const {
    const ptx::Operand& from = inst.operands.at(1);
    if (from.kind != ptx::Operand::Kind::Address || from.base != ptx::Operand::Base::Symbol ||
        from.symbol.kind != ptx::SymbolRef::Kind::Parameter)
      return kUnknown;
    const uint32_t size = ptx::size_of(inst.type());
    if (size != kPointerBytes) return kNumber;
    const uint32_t at =
        kernel_.parameter_offsets.at(from.symbol.index) + static_cast<uint32_t>(from.offset) + element * size;
    if (std::find(pointers_.begin(), pointers_.end(), at) == pointers_.end()) return kNumber;
    return {Origin::State::Known, {{at, 1}}};
  }

  Origin result_of(const ptx::Instruction& inst, uint32_t element) const {
    const auto& o = inst.operands;
    if (is_memory_load(inst.opcode)) {
      const bool by_parameter = inst.has(Mod::param) || inst.has(Mod::param_entry);
      return by_parameter ? parameter(inst, element) : kNumber;
    }
    switch (inst.opcode) {
      case Opcode::mov:
        if (o.size() == 2 && o[0].kind == ptx::Operand::Kind::Register &&
            o[1].kind == ptx::Operand::Kind::Register)
          return of(o[1]);
        break;
      case Opcode::cvta:
        if (o.size() == 2) return of(o[1]);
        break;
      case Opcode::add:
        if (o.size() == 3 && !inst.has(Mod::cc)) return sum(of(o[1]), of(o[2]), 1);
        break;
      case Opcode::sub:
        if (o.size() == 3 && !inst.has(Mod::cc)) return sum(of(o[1]), of(o[2]), -1);
        break;
      case Opcode::mad:
        if (o.size() == 4 && of(o[1]).is_number() && of(o[2]).is_number()) return of(o[3]);
        break;
      case Opcode::selp:
        if (o.size() == 4) return join(of(o[1]), of(o[2]));
        break;
      case Opcode::call:
        return kUnknown;
      default:
        break;
    }
    Origin result = kNumber;
    for (size_t i = 1; i < o.size(); ++i) {
      const Origin one = of(o[i]);
      if (one.state == Origin::State::Unset) return {};
      if (!one.is_number()) result = kUnknown;
    }
    return result;
  }
};

// The allocation that a pointer points into, or just past, with those that follow it without a gap.
std::optional<std::pair<Address, Address>> around(const Memory& memory, Address pointer) {
  auto found = memory.find(pointer);
  if (!found && pointer > 0) found = memory.find(pointer - 1);
  if (!found) return std::nullopt;
  Address low = found->base, high = found->end();
  constexpr int kMostPieces = 1024;
  for (int i = 0; i < kMostPieces; ++i) {
    const auto next = memory.find(high);
    if (!next) break;
    high = next->end();
  }
  for (int i = 0; i < kMostPieces && low > 0; ++i) {
    const auto previous = memory.find(low - 1);
    if (!previous) break;
    low = previous->base;
  }
  return std::pair(low, high);
}

}  // namespace

std::vector<SiteOrigin> site_origins(const Function& kernel, std::span<const uint32_t> pointers) {
  if (!kernel.ptx || kernel.ptx->body.size() > kMostFollowed) return {};
  return Follow(kernel, pointers).run();
}

const SiteBound* SiteBounds::of(const Inst& inst) const {
  const auto found =
      std::find_if(bounds.begin(), bounds.end(), [&](const SiteBound& b) { return b.source == inst.source; });
  return found == bounds.end() ? nullptr : &*found;
}

SiteBounds bounds_of(const Function& kernel, uint32_t sites, std::span<const std::byte> parameters,
                     const Memory& memory) {
  std::map<uint32_t, SiteBound> by_parameter;
  std::vector<uint32_t> pointers;
  for (uint32_t at = 0; at + kPointerBytes <= parameters.size(); at += kPointerBytes) {
    Address value = 0;
    std::memcpy(&value, parameters.data() + at, sizeof value);
    const auto range = around(memory, value);
    if (!range) continue;
    pointers.push_back(at);
    by_parameter[at] = {.low = range->first, .high = range->second, .pointer = value};
  }
  SiteBounds bounds;
  if (pointers.empty()) return bounds;
  if (kernel.origins.pointers != pointers) {
    kernel.origins.pointers = pointers;
    kernel.origins.sites = site_origins(kernel, pointers);
  }
  bounds.of_site.assign(sites, 0);
  for (const SiteOrigin& origin : kernel.origins.sites) {
    SiteBound bound = by_parameter[origin.parameter];
    bound.source = origin.source;
    bounds.bounds.push_back(bound);
    if (origin.site < sites) bounds.of_site[origin.site] = static_cast<uint32_t>(bounds.bounds.size());
  }
  return bounds;
}

}  // namespace assay::vgpu
