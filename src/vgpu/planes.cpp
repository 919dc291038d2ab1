// Linear scan over live intervals: liveness by blocks, then one interval per register from its first
// to its last position, widened over every block it lives through; free planes are reused by width.
#include "vgpu/planes.h"

#include <algorithm>
#include <map>

namespace assay::vgpu {

namespace {

using ptx::Opcode;
using Kind = ptx::Operand::Kind;

// Instructions whose first operand, though a register, is read and not written.
constexpr Opcode kReadsFirstOperand[] = {
    Opcode::bar_sync,      Opcode::bar_arrive, Opcode::barrier_sync, Opcode::barrier_arrive,
    Opcode::bar_warp_sync, Opcode::nanosleep,  Opcode::brx_idx,      Opcode::call,
    Opcode::stackrestore,  Opcode::setmaxnreg, Opcode::pmevent,
};
// Instructions that read their destination as well.
constexpr Opcode kUpdatesFirstOperand[] = {Opcode::wgmma_mma_async, Opcode::wgmma_mma_async_sp, Opcode::call};

bool is_among(Opcode opcode, auto& list) {
  return std::find(std::begin(list), std::end(list), opcode) != std::end(list);
}

void add_registers(const ptx::Operand& operand, std::vector<uint32_t>& to) {
  if (operand.kind == Kind::Register && operand.index != ptx::kNone) to.push_back(operand.index);
  if (operand.kind == Kind::Address && operand.base == ptx::Operand::Base::Register &&
      operand.index != ptx::kNone)
    to.push_back(operand.index);
  if (operand.pair != ptx::kNone) to.push_back(operand.pair);
  for (const ptx::Operand& element : operand.elements) add_registers(element, to);
}

}  // namespace

Effects effects_of(const ptx::Instruction& inst) {
  Effects effects;
  for (size_t i = 0; i < inst.operands.size(); ++i) {
    const ptx::Operand& operand = inst.operands[i];
    const bool may_write = i == 0 && (operand.kind == Kind::Register || operand.kind == Kind::Vector ||
                                      operand.kind == Kind::Sink || operand.kind == Kind::List);
    const bool writes =
        may_write && (!is_among(inst.opcode, kReadsFirstOperand) || operand.kind == Kind::List);
    if (writes) add_registers(operand, effects.writes);
    if (!writes || is_among(inst.opcode, kUpdatesFirstOperand) || operand.component != 0 ||
        inst.guard != ptx::kNone)
      add_registers(operand, effects.reads);
  }
  if (inst.guard != ptx::kNone) effects.reads.push_back(inst.guard);
  return effects;
}

namespace {

class Bits {
 public:
  explicit Bits(size_t size) : words_((size + 63) / 64) {}
  bool test(uint32_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  void set(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  // Adds `other` less `without`; tells whether anything changed.
  bool add(const Bits& other, const Bits* without = nullptr) {
    uint64_t changed = 0;
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint64_t fresh = other.words_[w] & ~(without ? without->words_[w] : 0) & ~words_[w];
      words_[w] |= fresh;
      changed |= fresh;
    }
    return changed != 0;
  }
  template <class F>
  void for_each(F f) const {
    for (size_t w = 0; w < words_.size(); ++w)
      for (uint64_t rest = words_[w]; rest; rest &= rest - 1)
        f(static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(rest))));
  }

 private:
  std::vector<uint64_t> words_;
};

struct TextBlock {
  uint32_t first = 0, last = 0;
  std::vector<uint32_t> successors;
  Bits exposed, written, live_in, live_out;
  TextBlock(uint32_t begin, uint32_t end, size_t registers)
      : first(begin),
        last(end),
        exposed(registers),
        written(registers),
        live_in(registers),
        live_out(registers) {}
};

class Liveness {
 public:
  explicit Liveness(const ptx::Function& function) : function_(function) {
    effects_.reserve(function.body.size());
    for (const ptx::Instruction& inst : function.body) effects_.push_back(effects_of(inst));
    split();
    connect();
    solve();
  }

  struct Interval {
    uint32_t first = UINT32_MAX, last = 0;
    bool at_entry = false;
    bool used() const { return first != UINT32_MAX; }
  };

  std::vector<Interval> intervals() const {
    std::vector<Interval> found(function_.registers.size());
    const auto cover = [&](uint32_t r, uint32_t position) {
      found[r].first = std::min(found[r].first, position);
      found[r].last = std::max(found[r].last, position);
    };
    for (uint32_t i = 0; i < effects_.size(); ++i) {
      for (uint32_t r : effects_[i].reads) cover(r, i);
      for (uint32_t r : effects_[i].writes) cover(r, i);
    }
    for (const TextBlock& block : blocks_) {
      block.live_in.for_each([&](uint32_t r) { cover(r, block.first); });
      block.live_out.for_each([&](uint32_t r) { cover(r, block.last); });
    }
    if (!blocks_.empty()) blocks_[0].live_in.for_each([&](uint32_t r) { found[r].at_entry = true; });
    return found;
  }

 private:
  const ptx::Function& function_;
  std::vector<Effects> effects_;
  std::vector<TextBlock> blocks_;
  std::vector<uint32_t> block_of_;

  static bool leaves(const ptx::Instruction& inst) {
    return inst.opcode == Opcode::bra || inst.opcode == Opcode::brx_idx || inst.opcode == Opcode::ret ||
           inst.opcode == Opcode::exit || inst.opcode == Opcode::trap;
  }

  std::vector<uint32_t> targets(const ptx::Instruction& inst) const {
    std::vector<uint32_t> found;
    for (const ptx::Operand& operand : inst.operands) {
      if (operand.kind == Kind::Label) found.push_back(operand.index);
      if (operand.symbol.kind == ptx::SymbolRef::Kind::TargetList && inst.opcode == Opcode::brx_idx)
        for (uint32_t t : function_.target_lists.at(operand.symbol.index).targets) found.push_back(t);
    }
    return found;
  }

  void split() {
    const size_t count = function_.body.size();
    std::vector<bool> leader(count + 1, false);
    if (count) leader[0] = true;
    for (size_t i = 0; i < count; ++i) {
      if (!leaves(function_.body[i])) continue;
      leader[i + 1] = true;
      for (uint32_t t : targets(function_.body[i]))
        if (t < count) leader[t] = true;
    }
    block_of_.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      if (leader[i]) blocks_.emplace_back(i, i, function_.registers.size());
      blocks_.back().last = i;
      block_of_[i] = static_cast<uint32_t>(blocks_.size() - 1);
    }
  }

  void connect() {
    for (TextBlock& block : blocks_) {
      for (uint32_t i = block.first; i <= block.last; ++i) {
        for (uint32_t r : effects_[i].reads)
          if (!block.written.test(r)) block.exposed.set(r);
        for (uint32_t r : effects_[i].writes) block.written.set(r);
      }
      const ptx::Instruction& end = function_.body[block.last];
      if (leaves(end))
        for (uint32_t t : targets(end))
          if (t < block_of_.size()) block.successors.push_back(block_of_[t]);
      const bool falls_through = !leaves(end) || end.guard != ptx::kNone;
      if (falls_through && block.last + 1 < block_of_.size())
        block.successors.push_back(block_of_[block.last + 1]);
    }
  }

  void solve() {
    for (TextBlock& block : blocks_) block.live_in.add(block.exposed);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = blocks_.size(); b-- > 0;) {
        TextBlock& block = blocks_[b];
        for (uint32_t s : block.successors) block.live_out.add(blocks_[s].live_in);
        changed |= block.live_in.add(block.live_out, &block.written);
      }
    }
  }
};

}  // namespace

uint32_t lane_bytes_of(ptx::Type type) {
  if (type == ptx::Type::Pred) return 0;
  const uint32_t bytes = ptx::size_of(type);
  return bytes <= 2 ? 2 : bytes;
}

uint32_t plane_bytes_of(uint32_t lane_bytes) {
  return lane_bytes == 0 ? 64 : lane_bytes * kLanesPerPlane;
}

std::vector<PlaneOffset> place_registers(const ptx::Function& function, uint32_t& plane_bytes) {
  const std::vector<Liveness::Interval> intervals = Liveness(function).intervals();
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < intervals.size(); ++r)
    if (intervals[r].used()) order.push_back(r);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return intervals[a].first < intervals[b].first; });

  std::vector<PlaneOffset> places(function.registers.size(), 0);
  std::map<uint32_t, std::vector<PlaneOffset>> free;                   // by lane width
  std::multimap<uint32_t, std::pair<uint32_t, PlaneOffset>> occupied;  // by last position
  for (uint32_t r : order) {
    const Liveness::Interval& life = intervals[r];
    // A plane is free only after the instruction that reads it last: a destination never overlaps a source.
    while (!occupied.empty() && occupied.begin()->first < life.first) {
      free[occupied.begin()->second.first].push_back(occupied.begin()->second.second);
      occupied.erase(occupied.begin());
    }
    const uint32_t width = lane_bytes_of(function.registers[r].type);
    std::vector<PlaneOffset>& pool = free[width];
    if (life.at_entry || pool.empty()) {
      places[r] = plane_bytes;
      plane_bytes += plane_bytes_of(width);
    } else {
      places[r] = pool.back();
      pool.pop_back();
    }
    if (!life.at_entry) occupied.emplace(life.last, std::pair{width, places[r]});
  }
  return places;
}

}  // namespace assay::vgpu
