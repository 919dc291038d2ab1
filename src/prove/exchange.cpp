// What a lane gets from another lane of its warp.
//
// shfl.sync gives a lane the value that some lane of its warp has in the source register, perhaps its own. If the register
// holds f(thread, loaded values, …), the result is f of another thread: the same term, with variables in the place of those
// that may differ between threads, and with the same facts about them. Which lane it is remains open.
//
// This holds if the lane that is read takes part; otherwise the result is undefined. So the mask must name all lanes, and the
// block must consist of whole warps. That all lanes get there, in the same iteration of the loops around it, is what `barrier`
// shows: whatever is proved with such a value rests on that (Summary::exchanges).
#include <algorithm>

#include "prove/machine.h"

namespace assay::prove {

namespace {

constexpr Bits kEveryLane = 0xffffffff;
constexpr Bits kWarpLanes = 32;

}  // namespace

bool Machine::has_whole_warps() const {
  Bits threads = 1;
  for (const Term extent : summary_.threads) {
    const auto known = terms_.value(extent);
    if (!known) return false;
    threads *= *known;
  }
  return threads % kWarpLanes == 0;
}

// Whether more is known of a value than that it is one.
bool Machine::says_something(Term term) {
  const std::vector<Var>& vars = terms_.mentions(term);
  return vars.empty() || std::any_of(vars.begin(), vars.end(), [&](Var v) {
           const Variable& variable = terms_.var(v);
           return variable.kind != VarKind::Unknown || !variable.facts.empty();
         });
}

bool Machine::exchange(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  if (i.opcode != ptx::Opcode::shfl_sync || i.operands.size() < 5 ||
      i.operands[0].kind != ptx::Operand::Kind::Register || !has_whole_warps() ||
      terms_.value(value(step, i.operands.back(), 32)) != kEveryLane)
    return false;
  const Term given = value(step, i.operands[1], 32);
  if (!says_something(given)) return false;  // sums of floats, mostly: any value is as good
  std::map<Var, Term> renamed;
  const auto theirs = of_another_lane(given, renamed);
  if (!theirs) return false;
  forget(step);  // the predicate
  put(step, i.operands[0], *theirs);
  summary_.exchanges = true;
  return true;
}

// None: it depends on how often a loop went round, which another lane may have left earlier or later. The loops around the
// instruction are in the same iteration.
std::optional<Term> Machine::of_another_lane(Term term, std::map<Var, Term>& renamed) {
  for (const Var var : std::vector<Var>(terms_.mentions(term))) {
    const VarKind kind = terms_.var(var).kind;
    if (kind == VarKind::Count && std::find(loops_.begin(), loops_.end(), var) == loops_.end())
      return std::nullopt;
    if ((kind == VarKind::Thread || kind == VarKind::Unknown) &&
        variable_of_another_lane(var, renamed) == kNoTerm)
      return std::nullopt;
  }
  return terms_.substitute(term, renamed);
}

// The variable of the other lane; kNoTerm: what is known of it cannot be said of another lane.
Term Machine::variable_of_another_lane(Var var, std::map<Var, Term>& renamed) {
  if (const auto found = renamed.find(var); found != renamed.end()) return found->second;
  Variable copy = terms_.var(var);
  const std::vector<Term> facts = std::move(copy.facts);
  copy.facts.clear();
  copy.name += " of a lane";
  copy.kind = VarKind::Unknown;
  copy.loaded_from = kNoTerm;  // by another thread: rules about loads are about one's own
  copy.is_one_of_distinct = copy.is_fixed = false;
  const Term term = terms_.variable(std::move(copy));
  renamed[var] = term;
  std::vector<Term> own;
  for (const Term fact : facts) {
    const auto theirs = of_another_lane(fact, renamed);
    if (!theirs) return kNoTerm;
    own.push_back(*theirs);
  }
  terms_.var(terms_.mentions(term).front()).facts = std::move(own);
  return term;
}

}  // namespace assay::prove
