#include "vgpu/loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "vgpu/compiled.h"
#include "vgpu/planes.h"

namespace assay::vgpu {

namespace {

using ptx::Mod;
using ptx::Opcode;
using Flags = std::vector<bool>;  // by position in the body

constexpr size_t kMostOfALoopsFunction = 1500;  // of a function that is looked at
constexpr size_t kMostLoops = 64;

// What a register holds while the loop runs, in terms of what it carries.
struct Value {
  bool known = false;            // a sum of carried registers and of what does not change
  bool scaled = false;           // … times something, or in another width
  bool narrow = false;           // numbers of 32 bits that change are among them
  std::map<uint32_t, int> sums;  // carried register → how often; empty: does not change
  // Of a number of 64 bits: its low 32 bits are this sum of 32-bit registers. A counter that is widened for an address and
  // narrowed again to be counted up is still a counter.
  std::optional<std::map<uint32_t, int>> low;
};

bool is_integer(ptx::Type type) {
  const ptx::TypeKind kind = ptx::kind_of(type);
  const uint32_t size = ptx::size_of(type);
  return (size == 4 || size == 8) &&
         (kind == ptx::TypeKind::Signed || kind == ptx::TypeKind::Unsigned || kind == ptx::TypeKind::Bits);
}

bool is_plain_access(const ptx::Instruction& inst) {
  const bool known_space =
      inst.has(Mod::global) || inst.has(Mod::const_) || inst.has(Mod::param) || inst.has(Mod::param_entry);
  switch (inst.opcode) {
    case Opcode::ld:
      return known_space || inst.has(Mod::shared) || inst.has(Mod::shared_cta) || inst.has(Mod::local);
    case Opcode::st:
    case Opcode::red:
      return known_space;
    default:
      return false;
  }
}

// What an iteration may do without handing anything on but registers.
bool is_allowed(const ptx::Instruction& inst) {
  switch (inst.opcode) {
    case Opcode::ld:
    case Opcode::st:
    case Opcode::red:
      return is_plain_access(inst);
    case Opcode::atom:
    case Opcode::call:
    case Opcode::brx_idx:
    case Opcode::bar_sync:
    case Opcode::bar_arrive:
    case Opcode::bar_red:
    case Opcode::barrier_sync:
    case Opcode::barrier_arrive:
    case Opcode::barrier_red:
      return false;
    default:
      // Copies in flight, mbarriers, stack and the like: anything that names memory otherwise.
      return std::none_of(inst.operands.begin(), inst.operands.end(),
                          [](const ptx::Operand& o) { return o.kind == ptx::Operand::Kind::Address; });
  }
}

bool is_collective(const ptx::Instruction& inst) {
  return inst.has(Mod::sync) || inst.opcode == Opcode::bar_warp_sync;
}

class Analysis {
 public:
  Analysis(const Function& function, Handler join) : function_(function), code_(*function.ptx), join_(join) {
    const auto size = static_cast<uint32_t>(code_.body.size());
    after_.resize(size);
    before_.resize(size);
    for (uint32_t i = 0; i < size; ++i) {
      effects_.push_back(effects_of(code_.body[i]));
      connect(i);
    }
    first_.assign(size, ptx::kNone);
    for (const Inst& inst : function.code)
      if (inst.source < size && first_[inst.source] == ptx::kNone) first_[inst.source] = inst.index;
  }

  std::vector<RegularLoop> run() {
    std::vector<RegularLoop> found;
    std::map<uint32_t, std::vector<uint32_t>> jumps;  // by head: who jumps back to it
    for (uint32_t i = 0; i < after_.size(); ++i)
      for (const uint32_t head : after_[i])
        if (head <= i) jumps[head].push_back(i);
    for (const auto& [head, from] : jumps) {
      if (from.size() != 1 || found.size() == kMostLoops) continue;
      if (auto loop = regular(head, from.front())) found.push_back(std::move(*loop));
    }
    return found;
  }

 private:
  const Function& function_;
  const ptx::Function& code_;
  const Handler join_;
  std::vector<Effects> effects_;
  std::vector<std::vector<uint32_t>> after_, before_;
  std::vector<uint32_t> first_;  // by position in the body: of its first Inst
  // Of the loop that is looked at:
  Flags holds_;
  uint32_t head_ = 0, latch_ = 0;
  std::map<uint32_t, std::vector<uint32_t>> definitions_;  // by register: in the loop
  std::set<uint32_t> carried_;
  std::map<uint32_t, Value> values_;
  std::set<uint32_t> sums_;        // of them, those that grow by what does not change
  std::map<uint32_t, bool> once_;  // by position in the body
  std::set<uint32_t> steps_;

  void connect(uint32_t i) {
    const ptx::Instruction& inst = code_.body[i];
    const auto add = [&](uint32_t to) {
      if (to >= after_.size()) return;
      after_[i].push_back(to);
      before_[to].push_back(i);
    };
    for (const ptx::Operand& operand : inst.operands) {
      if (operand.kind == ptx::Operand::Kind::Label) add(operand.index);
      if (operand.symbol.kind == ptx::SymbolRef::Kind::TargetList && inst.opcode == Opcode::brx_idx)
        for (const uint32_t target : code_.target_lists.at(operand.symbol.index).targets) add(target);
    }
    const bool leaves = inst.opcode == Opcode::bra || inst.opcode == Opcode::brx_idx ||
                        inst.opcode == Opcode::ret || inst.opcode == Opcode::exit ||
                        inst.opcode == Opcode::trap;
    if (!leaves || inst.guard != ptx::kNone) add(i + 1);
  }

  // What can get to the jump back without passing the head. False where the loop can be entered elsewhere, or lies apart.
  bool find_body() {
    holds_.assign(after_.size(), false);
    holds_[head_] = true;
    std::vector<uint32_t> open{latch_};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (holds_[at]) continue;
      if (at == 0) return false;
      holds_[at] = true;
      open.insert(open.end(), before_[at].begin(), before_[at].end());
    }
    // In one piece: what is executed in every iteration is executed in the order of the text.
    for (uint32_t i = 0; i < holds_.size(); ++i)
      if (holds_[i] && (i < head_ || i > latch_)) return false;
    return true;
  }

  // Whether `goal` can be reached from `from` in the loop without passing the head again or `avoided`.
  bool reaches(uint32_t from, uint32_t goal, uint32_t avoided) const {
    Flags seen(after_.size(), false);
    std::vector<uint32_t> open{from};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (seen[at] || !holds_[at] || at == avoided) continue;
      if (at == goal) return true;
      seen[at] = true;
      for (const uint32_t next : after_[at])
        if (next != head_) open.push_back(next);
    }
    return false;
  }

  // Executed once in every iteration that does not leave before it.
  bool is_once(uint32_t at) {
    const auto [known, fresh] = once_.emplace(at, false);
    if (fresh) known->second = find_once(at);
    return known->second;
  }
  bool find_once(uint32_t at) const {
    if (at != head_ && at != latch_ && reaches(head_, latch_, at)) return false;
    for (const uint32_t next : after_[at])
      if (next != head_ && reaches(next, at, ptx::kNone)) return false;
    return true;
  }

  // Whether the value that a register has at the head may be read later, in the loop or behind it.
  bool is_live_at_head(uint32_t reg) const {
    Flags seen(after_.size(), false);
    std::vector<uint32_t> open{head_};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      const auto has = [&](const std::vector<uint32_t>& list) {
        return std::find(list.begin(), list.end(), reg) != list.end();
      };
      if (has(effects_[at].reads)) return true;
      if (has(effects_[at].writes)) continue;
      open.insert(open.end(), after_[at].begin(), after_[at].end());
    }
    return false;
  }

  bool collect_definitions() {
    definitions_.clear();
    carried_.clear();
    values_.clear();
    sums_.clear();
    once_.clear();
    steps_.clear();
    for (uint32_t i = 0; i < after_.size(); ++i) {
      if (!holds_[i]) continue;
      if (!is_allowed(code_.body[i])) return false;
      for (const uint32_t reg : effects_[i].writes) definitions_[reg].push_back(i);
    }
    for (const auto& [reg, where] : definitions_)
      if (is_live_at_head(reg)) carried_.insert(reg);
    return true;
  }

  // The one definition in the loop, if it is made in every iteration and under no condition.
  std::optional<uint32_t> only_definition(uint32_t reg) {
    const auto found = definitions_.find(reg);
    if (found == definitions_.end() || found->second.size() != 1) return std::nullopt;
    const uint32_t at = found->second.front();
    if (code_.body[at].guard != ptx::kNone || !is_once(at)) return std::nullopt;
    return at;
  }

  // As the instruction at `at` reads it. A sum that has been counted up already is still a sum, shifted by what does not
  // change. What is computed from sums is that behind its definition, and before it what the last iteration made it.
  Value value_of(const ptx::Operand& operand, uint32_t at) {
    if (operand.kind == ptx::Operand::Kind::Immediate) return {.known = true};
    if (operand.kind == ptx::Operand::Kind::Special || operand.kind == ptx::Operand::Kind::Symbol)
      return {.known = operand.kind == ptx::Operand::Kind::Symbol || is_steady(operand.special)};
    if (operand.kind != ptx::Operand::Kind::Register || operand.negated || operand.component != 0) return {};
    const uint32_t reg = operand.index;
    if (!definitions_.contains(reg)) return {.known = true};
    if (carried_.contains(reg)) {
      const auto definition = only_definition(reg);
      if (!definition) return {};
      const bool narrow = ptx::size_of(code_.registers[reg].type) == 4;
      if (is_sum(reg)) return {.known = true, .narrow = narrow, .sums = {{reg, 1}}};
      if (*definition >= at) return {.known = narrow, .narrow = narrow, .sums = {{reg, 1}}};
      steps_.insert(*definition);
      Value value = computed(*definition);
      value.scaled = true;
      value.low.reset();
      value.narrow |= narrow;
      return value;
    }
    return defined_value(reg);
  }

  static bool is_steady(ptx::SpecialRegister special) {
    switch (special) {
      case ptx::SpecialRegister::Tid:
      case ptx::SpecialRegister::Ntid:
      case ptx::SpecialRegister::Ctaid:
      case ptx::SpecialRegister::Nctaid:
      case ptx::SpecialRegister::Laneid:
        return true;
      default:
        return false;
    }
  }

  Value defined_value(uint32_t reg) {
    if (const auto known = values_.find(reg); known != values_.end()) return known->second;
    values_[reg] = {};  // a circle is nothing regular
    const auto at = only_definition(reg);
    Value value;
    if (at) {
      value = computed(*at);
      if (value.known) steps_.insert(*at);
      value.narrow |= !value.sums.empty() && ptx::size_of(code_.registers[reg].type) == 4;
    }
    values_[reg] = value;
    return value;
  }

  static void add_to(std::map<uint32_t, int>& sums, const std::map<uint32_t, int>& more, int sign) {
    for (const auto& [reg, times] : more)
      if ((sums[reg] += sign * times) == 0) sums.erase(reg);
  }

  static Value sum(const Value& a, const Value& b, int sign) {
    Value result{.known = a.known && b.known,
                 .scaled = a.scaled || b.scaled,
                 .narrow = a.narrow || b.narrow,
                 .sums = a.sums,
                 .low = low_of(a)};
    add_to(result.sums, b.sums, sign);
    if (const auto other = low_of(b); result.low && other)
      add_to(*result.low, *other, sign);
    else
      result.low.reset();
    return result;
  }

  // What does not change is a sum of nothing, in any width.
  static std::optional<std::map<uint32_t, int>> low_of(const Value& value) {
    if (value.known && !value.scaled && value.sums.empty()) return value.sums;
    return value.low;
  }

  // From one width to another.
  static Value converted(const ptx::Instruction& inst, const Value& from, Value scaled) {
    const uint32_t to_bytes = ptx::size_of(inst.type()), from_bytes = ptx::size_of(inst.type(1));
    scaled.low.reset();
    if (from_bytes == 4 && to_bytes == 8 && !from.scaled) scaled.low = from.sums;
    if (from_bytes == 8 && to_bytes == 4 && from.low)
      return {.known = true, .narrow = true, .sums = *from.low};
    return scaled;
  }

  Value computed(uint32_t at) {
    const ptx::Instruction& inst = code_.body[at];
    const auto& o = inst.operands;
    std::vector<Value> values;
    for (size_t i = 1; i < o.size(); ++i) {
      values.push_back(value_of(o[i], at));
      if (!values.back().known) return {};
    }
    const bool steady =
        std::all_of(values.begin(), values.end(), [](const Value& v) { return v.sums.empty() && !v.scaled; });
    const bool is_pure = std::none_of(o.begin(), o.end(),
                                      [](const ptx::Operand& operand) {
                                        return operand.kind == ptx::Operand::Kind::Address ||
                                               operand.kind == ptx::Operand::Kind::List;
                                      }) &&
                         !is_collective(inst) && o.size() >= 2;
    if (!is_pure || inst.has(Mod::cc)) return {};
    if (steady) return {.known = true};
    if (!is_integer(inst.type())) return {};
    Value scaled = values[0];
    for (size_t i = 1; i < values.size(); ++i) scaled = sum(scaled, values[i], 1);
    scaled.scaled = true;
    scaled.low.reset();  // of a multiple it is another
    const bool wide = ptx::size_of(inst.type()) == 8 || inst.has(Mod::wide);
    switch (inst.opcode) {
      case Opcode::mov:
        return values.size() == 1 ? values[0] : Value{};
      case Opcode::add:
        return inst.has(Mod::sat) ? Value{} : sum(values[0], values[1], 1);
      case Opcode::sub:
        return inst.has(Mod::sat) ? Value{} : sum(values[0], values[1], -1);
      case Opcode::cvt:
        return inst.types.size() == 2 && is_integer(inst.type(1)) && !inst.has(Mod::sat)
                   ? converted(inst, values[0], std::move(scaled))
                   : Value{};
      case Opcode::shl:
        return wide && values[1].sums.empty() ? scaled : Value{};
      case Opcode::mul:
        return wide && !inst.has(Mod::hi) && (values[0].sums.empty() || values[1].sums.empty()) ? scaled
                                                                                                : Value{};
      case Opcode::mad:
        return wide && !inst.has(Mod::hi) && (values[0].sums.empty() || values[1].sums.empty()) ? scaled
                                                                                                : Value{};
      default:
        return {};
    }
  }

  std::optional<RegularLoop> regular(uint32_t head, uint32_t latch) {
    head_ = head;
    latch_ = latch;
    if (first_[head] == ptx::kNone || !find_body() || !collect_definitions()) return std::nullopt;
    RegularLoop loop{.head = first_[head]};
    if (!add_carried(loop) || !add_exits(loop)) return std::nullopt;
    add_steps(loop);
    for (uint32_t i = 0; i < after_.size(); ++i)
      loop.has_collective |= holds_[i] && is_collective(code_.body[i]);
    return loop;
  }

  // Carried registers are sums until one of them turns out not to be: an unrolled loop counts through several others, so
  // what one of them is rests on what the others are.
  void find_sums() {
    for (const uint32_t reg : carried_)
      if (only_definition(reg) && is_integer(code_.registers[reg].type)) sums_.insert(reg);
    const auto grows_evenly = [&](uint32_t reg) {
      const Value next = computed(*only_definition(reg));
      return next.known && !next.scaled && next.sums == std::map<uint32_t, int>{{reg, 1}};
    };
    for (bool changed = true; changed;) {
      std::set<uint32_t> kept;
      for (const uint32_t reg : sums_)
        if (grows_evenly(reg)) kept.insert(reg);
      changed = kept != sums_;
      sums_ = std::move(kept);
      values_.clear();
      steps_.clear();
    }
  }
  bool is_sum(uint32_t reg) const { return sums_.contains(reg); }

  // Every carried register is a sum, or computed from sums in the iteration before.
  bool add_carried(RegularLoop& loop) {
    find_sums();
    for (const uint32_t reg : carried_) {
      const ptx::Type type = code_.registers[reg].type;
      const auto at = only_definition(reg);
      if (!at || !is_integer(type)) return false;
      const Value next = computed(*at);
      if (!next.known) return false;
      const bool sum = is_sum(reg);
      for (const auto& [from, times] : next.sums)
        if (!sum && !is_sum(from)) return false;
      steps_.insert(*at);
      loop.carried.push_back({function_.register_planes[reg], ptx::size_of(type), sum});
    }
    return !loop.carried.empty();
  }

  static std::optional<RegularLoop::Compare> compare_of(const ptx::Instruction& inst) {
    using C = RegularLoop::Compare;
    constexpr std::pair<Mod, C> kCompares[] = {
        {Mod::eq, C::Equal},   {Mod::ne, C::NotEqual},     {Mod::lt, C::Less}, {Mod::le, C::LessEqual},
        {Mod::gt, C::Greater}, {Mod::ge, C::GreaterEqual}, {Mod::lo, C::Less}, {Mod::ls, C::LessEqual},
        {Mod::hi, C::Greater}, {Mod::hs, C::GreaterEqual},
    };
    if (inst.mods.size() != 1) return std::nullopt;  // combined with another predicate, say
    for (const auto& [mod, compare] : kCompares)
      if (inst.has(mod)) return compare;
    return std::nullopt;
  }

  bool side_of(const ptx::Operand& operand, uint32_t at, RegularLoop::Side& side, bool& narrow) {
    const Value value = value_of(operand, at);
    if (!value.known) return false;
    narrow |= value.narrow;
    if (operand.kind == ptx::Operand::Kind::Immediate) {
      side = {.is_constant = true, .bits = operand.bits};
      return true;
    }
    if (operand.kind != ptx::Operand::Kind::Register) return false;
    side = {.plane = function_.register_planes[operand.index]};
    return true;
  }

  // The comparison behind a guard, through `not`.
  bool add_exit(uint32_t at, bool when, RegularLoop& loop) {
    uint32_t guard = code_.body[at].guard;
    for (int depth = 0; depth < 4; ++depth) {
      if (!definitions_.contains(guard)) return true;  // does not change: the loop goes on as it did
      if (carried_.contains(guard)) return false;
      const auto from = only_definition(guard);
      if (!from) return false;
      const ptx::Instruction& inst = code_.body[*from];
      if (inst.opcode == Opcode::not_ && inst.operands.size() == 2 &&
          inst.operands[1].kind == ptx::Operand::Kind::Register) {
        guard = inst.operands[1].index;
        when = !when;
        continue;
      }
      const auto compare = compare_of(inst);
      if (inst.opcode != Opcode::setp || !compare || inst.operands.size() != 3 || !is_integer(inst.type()) ||
          inst.operands[0].pair != ptx::kNone)
        return false;
      RegularLoop::Exit exit{.bytes = ptx::size_of(inst.type()),
                             .is_signed = ptx::kind_of(inst.type()) == ptx::TypeKind::Signed,
                             .compare = *compare,
                             .when = when,
                             .step = *from,  // as a position in the body, until add_steps
                             .branch = first_[at]};
      if (!side_of(inst.operands[1], *from, exit.left, exit.narrow) ||
          !side_of(inst.operands[2], *from, exit.right, exit.narrow))
        return false;
      steps_.insert(*from);
      loop.exits.push_back(exit);
      return true;
    }
    return false;
  }

  bool add_exits(RegularLoop& loop) {
    for (uint32_t i = 0; i < after_.size(); ++i) {
      if (!holds_[i]) continue;
      const ptx::Instruction& inst = code_.body[i];
      const bool ends = inst.opcode == Opcode::ret || inst.opcode == Opcode::exit;
      const bool jumps = inst.opcode == Opcode::bra;
      bool leaves = ends;
      for (const uint32_t next : after_[i]) leaves |= !holds_[next];
      if (!leaves) continue;
      if ((!ends && !jumps) || inst.guard == ptx::kNone || !is_once(i)) return false;
      const bool by_jumping = ends || !holds_[inst.operands.at(0).index];
      if (!add_exit(i, by_jumping != inst.guard_negated, loop)) return false;
    }
    return !loop.exits.empty();
  }

  // From positions in the body to Insts.
  void add_steps(RegularLoop& loop) {
    std::map<uint32_t, uint32_t> last;  // by position in the body: of its last step
    for (const Inst& inst : function_.code) {
      if (inst.source == ptx::kNone || !steps_.contains(inst.source)) continue;
      if (interpreted_handler(function_, inst) == join_) continue;
      last[inst.source] = static_cast<uint32_t>(loop.steps.size());
      loop.steps.push_back(inst.index);
    }
    for (RegularLoop::Exit& exit : loop.exits) exit.step = last[exit.step];
    for (const uint32_t at : steps_) {
      const ptx::Operand& to = code_.body[at].operands[0];
      if (to.kind != ptx::Operand::Kind::Register || !last.contains(at)) continue;
      const ptx::Type type = code_.registers[to.index].type;
      if (is_integer(type) && ptx::size_of(type) == 4)
        loop.narrow.push_back({function_.register_planes[to.index], last[at]});
    }
    for (const RegularLoop::Carried& sum : loop.carried)
      if (sum.bytes == 4) loop.narrow.push_back({sum.plane, RegularLoop::kAtHead});
  }
};

}  // namespace

std::vector<RegularLoop> regular_loops(const Function& function, Handler join) {
  if (!function.ptx || function.ptx->body.size() > kMostOfALoopsFunction) return {};
  return Analysis(function, join).run();
}

}  // namespace assay::vgpu
