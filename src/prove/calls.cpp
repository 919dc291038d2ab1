#include "prove/calls.h"

#include <algorithm>

namespace assay::prove {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;

namespace {

constexpr int kMostNested = 4;  // calls within calls; recursion ends here, too

const ptx::Function* callee_of(const ptx::Module& module, const ptx::Instruction& call) {
  const Operand* target = nullptr;
  for (const Operand& operand : call.operands)
    if (operand.kind != Operand::Kind::List && !target) target = &operand;
  if (!target || target->kind != Operand::Kind::Symbol ||
      target->symbol.kind != ptx::SymbolRef::Kind::Function)
    return nullptr;
  return &module.functions[target->symbol.index];
}

// Results in registers would be changed by the call: they are left to others. Arguments may be anything.
bool has_results_in_registers(const ptx::Instruction& call) {
  const Operand& first = call.operands.front();
  return first.kind == Operand::Kind::List &&
         std::any_of(first.elements.begin(), first.elements.end(),
                     [](const Operand& element) { return element.kind != Operand::Kind::Symbol; });
}

// What meets other threads, waits, or ends a thread: pure as far as memory goes, but no computation.
bool meets_or_ends(Opcode opcode) {
  constexpr Opcode kOthers[] = {Opcode::shfl,
                                Opcode::shfl_sync,
                                Opcode::vote,
                                Opcode::vote_sync,
                                Opcode::match_all,
                                Opcode::match_any,
                                Opcode::redux_sync,
                                Opcode::elect_sync,
                                Opcode::activemask,
                                Opcode::mma,
                                Opcode::wmma_mma,
                                Opcode::movmatrix,
                                Opcode::membar,
                                Opcode::fence,
                                Opcode::bar_warp_sync,
                                Opcode::exit,
                                Opcode::trap,
                                Opcode::brkpt,
                                Opcode::nanosleep,
                                Opcode::griddepcontrol,
                                Opcode::cp_async_commit_group,
                                Opcode::cp_async_wait_all,
                                Opcode::cp_async_wait_group,
                                Opcode::prefetch,
                                Opcode::prefetchu};
  return std::find(std::begin(kOthers), std::end(kOthers), opcode) != std::end(kOthers);
}

// A parameter of the function itself or of one that it calls, by name. A parameter's address is never taken.
bool touches_a_parameter(const ptx::Instruction& i) {
  if (i.opcode != Opcode::ld && i.opcode != Opcode::st) return false;
  if (!i.has(Mod::param) && !i.has(Mod::param_func)) return false;
  const Operand& place = i.operands[i.opcode == Opcode::ld ? 1 : 0];
  return place.kind == Operand::Kind::Address && place.base == Operand::Base::Symbol;
}

bool computes(const ptx::Module& module, const ptx::Function& function, int nested) {
  if (nested > kMostNested || function.is_extern || function.is_entry || function.is_noreturn ||
      function.body.empty() || function.alias_of != ptx::kNone)
    return false;
  for (uint32_t at = 0; at < function.body.size(); ++at) {
    const ptx::Instruction& i = function.body[at];
    if (touches_a_parameter(i)) continue;
    if (i.opcode == Opcode::call) {
      const ptx::Function* callee = callee_of(module, i);
      if (!callee || has_results_in_registers(i) || !computes(module, *callee, nested + 1)) return false;
      continue;
    }
    if (!is_pure(i.opcode) || meets_or_ends(i.opcode)) return false;
    // No way back: it ends.
    if (i.opcode == Opcode::bra && i.operands.back().index <= at) return false;
  }
  return true;
}

}  // namespace

bool calls_a_computation(const ptx::Module& module, const ptx::Instruction& call) {
  const ptx::Function* callee = callee_of(module, call);
  return callee && !has_results_in_registers(call) && computes(module, *callee, 0);
}

bool is_pure(Opcode opcode) {
  switch (opcode) {
    case Opcode::abs:
    case Opcode::add:
    case Opcode::addc:
    case Opcode::bfe:
    case Opcode::bfi:
    case Opcode::bfind:
    case Opcode::bmsk:
    case Opcode::brev:
    case Opcode::clz:
    case Opcode::cnot:
    case Opcode::copysign:
    case Opcode::cos:
    case Opcode::div:
    case Opcode::dp2a:
    case Opcode::dp4a:
    case Opcode::ex2:
    case Opcode::fma:
    case Opcode::fns:
    case Opcode::lg2:
    case Opcode::mad:
    case Opcode::mad24:
    case Opcode::madc:
    case Opcode::max:
    case Opcode::min:
    case Opcode::mul:
    case Opcode::mul24:
    case Opcode::neg:
    case Opcode::popc:
    case Opcode::rcp:
    case Opcode::rem:
    case Opcode::rsqrt:
    case Opcode::sad:
    case Opcode::sin:
    case Opcode::sqrt:
    case Opcode::sub:
    case Opcode::subc:
    case Opcode::szext:
    case Opcode::tanh:
    case Opcode::testp:
    case Opcode::set:
    case Opcode::setp:
    case Opcode::selp:
    case Opcode::slct:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::not_:
    case Opcode::lop3:
    case Opcode::shf:
    case Opcode::shl:
    case Opcode::shr:
    case Opcode::cvt:
    case Opcode::cvt_pack:
    case Opcode::mov:
    case Opcode::prmt:
    case Opcode::shfl:
    case Opcode::shfl_sync:
    case Opcode::isspacep:
    case Opcode::activemask:
    case Opcode::match_all:
    case Opcode::match_any:
    case Opcode::redux_sync:
    case Opcode::vote:
    case Opcode::vote_sync:
    case Opcode::elect_sync:
    case Opcode::mma:
    case Opcode::wmma_mma:
    case Opcode::movmatrix:
    case Opcode::createpolicy:
    // Hints, waits and fences: they change when something happens, not where.
    case Opcode::prefetch:
    case Opcode::prefetchu:
    case Opcode::membar:
    case Opcode::fence:
    case Opcode::nanosleep:
    case Opcode::cp_async_commit_group:
    case Opcode::cp_async_wait_group:
    case Opcode::cp_async_wait_all:
    case Opcode::bar_warp_sync:
    case Opcode::pmevent:
    case Opcode::brkpt:
    case Opcode::griddepcontrol:
    // Control flow is the executor's.
    case Opcode::bra:
    case Opcode::ret:
    case Opcode::exit:
    case Opcode::trap:
      return true;
    default:
      return false;
  }
}

}  // namespace assay::prove
