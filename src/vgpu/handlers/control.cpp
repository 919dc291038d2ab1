// Branches, calls, exits, barriers.
#include <bit>

#include "vgpu/builtins.h"
#include "vgpu/handlers/build.h"
#include "vgpu/run.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

using ptx::Mod;
using ptx::Opcode;
using Kind = ptx::Operand::Kind;

struct BranchForm {
  const Inst* target = nullptr;
  uint32_t targets = 0;  // brx.idx
  const Inst** table = nullptr;
};

struct BarrierForm {
  PlaneOffset id = 0, threads = 0;   // u32 planes
  uint32_t number = kBlockBarriers;  // where it is a constant
  bool has_threads = false;
  bool waits = true;
  bool aligned = false;
  PlaneOffset vote = 0;  // bar.red: predicate
  bool has_vote = false;
  Mod operation{};  // and, or, popc
};

uint32_t first_lane(uint32_t lanes) {
  return static_cast<uint32_t>(std::countr_zero(lanes));
}

void report(Warp& w, const Inst& i, Violation what, uint32_t lanes, std::string_view detail) {
  for (Listener* listener : listeners(w))
    listener->on_violation(w, i,
                           {.what = what, .lanes = lanes, .first_lane = first_lane(lanes), .detail = detail});
}

// An undefined predicate decides where lanes go.
inline void check_guard(Warp& w, const Inst& i) {
  if constexpr (kWatched) {
    const uint32_t undefined = w.poisoned(i.guard) & w.active;
    if (undefined == 0) [[likely]]
      return;
    w.poisoned(i.guard) = 0;
    report(w, i, Violation::UndefinedBranch, undefined, "");
  } else {
    (void)w, (void)i;
  }
}

inline void count(Warp& w, const Inst& i) {
  w.executed += static_cast<uint64_t>(i.imm);
  w.slice -= i.imm;
}

const Inst* join(Warp& w, const Inst& i) {
  count(w, i);
  if (w.others.empty()) [[likely]]
    return &i + 1;
  return rejoin(w, &i + 1);
}

const Inst* branch_always(Warp& w, const Inst& i) {
  count(w, i);
  const Inst* target = static_cast<const BranchForm*>(i.extra)->target;
  return w.slice >= 0 ? target : yield(w, target);
}

const Inst* branch(Warp& w, const Inst& i) {
  count(w, i);
  check_guard(w, i);
  const uint32_t taken = w.lanes_of(i);
  const Inst* target = static_cast<const BranchForm*>(i.extra)->target;
  const Inst* next = taken == 0 ? &i + 1 : taken == w.active ? target : diverge(w, target, taken, &i + 1);
  return w.slice >= 0 || !next ? next : yield(w, next);
}

// Lanes may go to several places: one group at a time, the others come back here.
const Inst* branch_indexed(Warp& w, const Inst& i) {
  count(w, i);
  const auto& form = *static_cast<const BranchForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  if (const uint32_t rest = w.active & ~lanes) return diverge(w, &i + 1, rest, &i);
  const uint32_t* index = w.plane<uint32_t>(i.a);
  const uint32_t chosen = index[first_lane(lanes)];
  uint32_t together = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if ((lanes >> l & 1) && index[l] == chosen) together |= 1u << l;
  if (chosen >= form.targets)
    return fault(w, i, FaultInfo::Kind::InvalidProgramCounter, first_lane(lanes),
                 "branch index out of range");
  const Inst* next = together == w.active ? form.table[chosen] : diverge(w, form.table[chosen], together, &i);
  return w.slice >= 0 || !next ? next : yield(w, next);
}

const Inst* do_exit(Warp& w, const Inst& i) {
  count(w, i);
  check_guard(w, i);
  const uint32_t lanes = w.lanes_of(i);
  return lanes ? exit_lanes(w, lanes, &i + 1) : &i + 1;
}

const Inst* do_return(Warp& w, const Inst& i) {
  count(w, i);
  check_guard(w, i);
  const uint32_t lanes = w.lanes_of(i);
  return lanes ? return_lanes(w, i, lanes, &i + 1) : &i + 1;
}

const Inst* end(Warp& w, const Inst& i) {
  return return_lanes(w, i, w.active, &i);
}

const Inst* call_direct(Warp& w, const Inst& i) {
  count(w, i);
  const auto& form = *static_cast<const CallForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  return lanes ? call(w, i, *form.callee, form, lanes) : &i + 1;
}

const Inst* call_indirect(Warp& w, const Inst& i) {
  count(w, i);
  const auto& form = *static_cast<const CallForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  const uint64_t* address = w.plane<uint64_t>(i.a);
  const uint64_t chosen = address[first_lane(lanes)];
  const Function* callee = function_at(w, chosen);
  if (!callee)
    return fault(w, i, FaultInfo::Kind::InvalidProgramCounter, first_lane(lanes),
                 "call through an invalid function pointer");
  uint32_t together = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l)
    if ((lanes >> l & 1) && address[l] == chosen) together |= 1u << l;
  // Lanes that call something else come back here afterwards.
  if (together != lanes) set_aside(w, &i, lanes & ~together);
  return call(w, i, *callee, form, together);
}

struct BuiltinForm : CallForm {
  Builtin run = nullptr;
};

const Inst* call_builtin(Warp& w, const Inst& i) {
  count(w, i);
  const auto& form = *static_cast<const BuiltinForm*>(i.extra);
  const uint32_t stride = w.frame->function->param_bytes;
  for (uint32_t rest = w.lanes_of(i); rest; rest &= rest - 1) {
    const uint32_t lane = first_lane(rest);
    if (!form.run(w, i, lane, w.frame->params + size_t{lane} * stride, form)) return nullptr;
    if constexpr (kWatched)
      for (uint32_t o = 0; o < form.outputs; ++o)
        std::memset(w.frame->params_poison + size_t{lane} * stride + form.output[o].to, 0,
                    form.output[o].bytes);
  }
  return &i + 1;
}

const Inst* trap(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  return lanes ? fault(w, i, FaultInfo::Kind::Trap, first_lane(lanes), "trap") : &i + 1;
}

const Inst* nothing(Warp&, const Inst& i) {
  return &i + 1;
}

const Inst* unsupported(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  return fault(w, i, FaultInfo::Kind::IllegalInstruction, first_lane(lanes),
               static_cast<const char*>(i.extra));
}

const Inst* not_predicate(Warp& w, const Inst& i) {
  w.mask(i.dst) = ~w.mask(i.a);
  if constexpr (kWatched) w.poisoned(i.dst) = w.poisoned(i.a);
  return &i + 1;
}

// ---- Barriers ----

const Inst* barrier(Warp& w, const Inst& i) {
  const auto& form = *static_cast<const BarrierForm*>(i.extra);
  uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  if (const uint32_t rest = w.active & ~lanes) return diverge(w, &i + 1, rest, &i);
  if (form.number < kBlockBarriers && !form.has_threads && !form.has_vote)
    return arrive(w, i, form.number, 0, lanes, form.waits, form.aligned);
  const uint32_t* id = w.plane<uint32_t>(form.id);
  const uint32_t chosen = id[first_lane(lanes)];
  uint32_t differs = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) differs |= id[l] ^ chosen;
  if (differs != 0) {
    uint32_t together = 0;
    for (uint32_t l = 0; l < kWarpSize; ++l)
      if ((lanes >> l & 1) && id[l] == chosen) together |= 1u << l;
    if (together != lanes) {
      set_aside(w, &i, lanes & ~together);
      lanes = together;
    }
  }
  if (chosen >= kBlockBarriers)
    return fault(w, i, FaultInfo::Kind::IllegalInstruction, first_lane(lanes),
                 "barrier number out of range (0 to 15)");
  if (form.has_vote) {
    BlockBarrier& there = w.block->barriers[chosen];
    const uint32_t votes = static_cast<uint32_t>(std::popcount(w.mask(form.vote) & lanes));
    there.votes += votes;
    there.voters += static_cast<uint32_t>(std::popcount(lanes));
  }
  return arrive(w, i, chosen, form.has_threads ? w.plane<uint32_t>(form.threads)[first_lane(lanes)] : 0,
                lanes, form.waits, form.aligned);
}

// The second half of bar.red: the votes are in.
const Inst* barrier_result(Warp& w, const Inst& i) {
  const auto& form = *static_cast<const BarrierForm*>(i.extra);
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  const BlockBarrier& there =
      w.block->barriers[w.plane<uint32_t>(form.id)[first_lane(lanes)] % kBlockBarriers];
  if (form.operation == Mod::popc) {
    uint32_t* d = w.plane<uint32_t>(i.dst);
    for (uint32_t l = 0; l < kWarpSize; ++l)
      if (lanes >> l & 1) d[l] = there.last_votes;
  } else {
    const bool truth =
        form.operation == Mod::and_ ? there.last_votes == there.last_voters : there.last_votes > 0;
    uint32_t& d = w.mask(i.dst);
    d = truth ? d | lanes : d & ~lanes;
  }
  if constexpr (kWatched) w.poisoned(i.dst) &= ~lanes;
  return &i + 1;
}

const Inst* cluster_arrive(Warp& w, const Inst& i) {
  if (const uint32_t lanes = w.lanes_of(i)) arrive_cluster(w, i, lanes, i.imm == 0);
  return &i + 1;
}

const Inst* cluster_wait(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  if (lanes == 0) return &i + 1;
  if (const uint32_t rest = w.active & ~lanes) return diverge(w, &i + 1, rest, &i);
  return wait_cluster(w, i);
}

// ---- Lowering ----

void lower_bra(Lowering& l) {
  auto* form = l.extra<BranchForm>();
  Inst& out = l.emit(l.inst->guard == ptx::kNone ? branch_always : branch);
  out.extra = form;
  l.resolve(&form->target, l.inst->operands.at(0).index);
}

void lower_brx(Lowering& l) {
  const ptx::TargetList& list = l.function.target_lists.at(l.inst->operands.at(1).symbol.index);
  auto* form = l.extra<BranchForm>();
  form->targets = static_cast<uint32_t>(list.targets.size());
  form->table = l.extra_array<const Inst*>(list.targets.size());
  for (size_t t = 0; t < list.targets.size(); ++t) l.resolve(&form->table[t], list.targets[t]);
  const PlaneOffset index = l.source(0, ptx::Type::U32);
  Inst& out = l.emit(branch_indexed);
  out.a = index;
  out.extra = form;
}

uint32_t aligned(uint32_t top, uint32_t align) {
  return align > 1 ? (top + align - 1) / align * align : top;
}

const ptx::Variable* argument_variable(const Lowering& l, const ptx::Operand& operand) {
  using SymbolKind = ptx::SymbolRef::Kind;
  if (operand.kind != Kind::Symbol) return nullptr;
  switch (operand.symbol.kind) {
    case SymbolKind::FunctionVariable:
      return &l.function.variables.at(operand.symbol.index);
    case SymbolKind::Parameter:
      return &l.function.parameters.at(operand.symbol.index);
    case SymbolKind::ReturnParameter:
      return &l.function.returns.at(operand.symbol.index);
    default:
      return nullptr;
  }
}

// Lays out arguments and results as the callee lays out its parameters and returns.
bool place_arguments(Lowering& l, const ptx::Operand* results, const ptx::Operand* arguments,
                     CallForm& form) {
  uint32_t top = 0;
  const auto place = [&](const ptx::Operand* list, CallForm::Piece*& pieces, uint32_t& count, bool into) {
    if (!list) return true;
    pieces = l.extra_array<CallForm::Piece>(list->elements.size());
    for (const ptx::Operand& operand : list->elements) {
      const ptx::Variable* variable = argument_variable(l, operand);
      if (!variable) return false;
      top = aligned(top, variable->align);
      const uint32_t here = l.param_offset(operand.symbol), bytes = static_cast<uint32_t>(variable->size);
      pieces[count++] = into ? CallForm::Piece{here, top, bytes} : CallForm::Piece{top, here, bytes};
      top += bytes;
    }
    return true;
  };
  return place(arguments, form.input, form.inputs, true) && place(results, form.output, form.outputs, false);
}

void lower_call(Lowering& l) {
  const ptx::Operand *results = nullptr, *arguments = nullptr, *target = nullptr;
  for (const ptx::Operand& operand : l.inst->operands) {
    if (operand.kind == Kind::List)
      (target ? arguments : results) = &operand;
    else if (!target)
      target = &operand;
  }
  if (!target) return l.unsupported("call without a target");
  if (target->kind == Kind::Symbol && target->symbol.kind == ptx::SymbolRef::Kind::Function) {
    const Function* callee = l.callee(target->symbol.index);
    if (callee->ptx->is_extern || callee->ptx->body.empty()) {
      auto* form = l.extra<BuiltinForm>();
      form->run = find_builtin(callee->ptx->name);
      if (!form->run) return l.unsupported("function `" + callee->ptx->name + "` is defined nowhere");
      if (!place_arguments(l, results, arguments, *form)) return l.unsupported("call argument");
      l.emit(call_builtin).extra = static_cast<const BuiltinForm*>(form);
      return;
    }
    auto* form = l.extra<CallForm>();
    form->callee = callee;
    if (!place_arguments(l, results, arguments, *form)) return l.unsupported("call argument");
    l.emit(call_direct).extra = form;
    return;
  }
  auto* form = l.extra<CallForm>();
  if (!place_arguments(l, results, arguments, *form)) return l.unsupported("call argument");
  const PlaneOffset address = l.source(*target, ptx::Type::U64);
  Inst& out = l.emit(call_indirect);
  out.a = address;
  out.extra = form;
}

void lower_exit(Lowering& l) {
  l.emit(do_exit);
}
void lower_ret(Lowering& l) {
  l.emit(do_return);
}
void lower_trap(Lowering& l) {
  l.emit(trap);
}
void lower_nothing(Lowering& l) {
  l.emit(nothing);
}

BarrierForm* barrier_form(Lowering& l, size_t first, size_t end) {
  auto* form = l.extra<BarrierForm>();
  form->id = l.source(first, ptx::Type::U32);
  if (l.inst->operands[first].kind == ptx::Operand::Kind::Immediate)
    form->number = static_cast<uint32_t>(
        std::min<uint64_t>(immediate_bits(l.inst->operands[first], ptx::Type::U32), kBlockBarriers));
  form->has_threads = first + 1 < end;
  if (form->has_threads) form->threads = l.source(first + 1, ptx::Type::U32);
  const Opcode opcode = l.inst->opcode;
  const bool is_bar = opcode == Opcode::bar_sync || opcode == Opcode::bar_red || opcode == Opcode::bar_arrive;
  form->aligned = is_bar || l.inst->has(Mod::aligned);
  form->waits = opcode != Opcode::bar_arrive && opcode != Opcode::barrier_arrive;
  return form;
}

void lower_barrier(Lowering& l) {
  BarrierForm* form = barrier_form(l, 0, l.inst->operands.size());
  l.emit(barrier).extra = form;
}

void lower_barrier_red(Lowering& l) {
  const size_t last = l.inst->operands.size() - 1;
  BarrierForm* form = barrier_form(l, 1, last);
  form->has_vote = true;
  form->vote = l.source(last, ptx::Type::Pred);
  form->operation = l.inst->has(Mod::popc) ? Mod::popc : l.inst->has(Mod::and_) ? Mod::and_ : Mod::or_;
  l.emit(barrier).extra = form;
  const PlaneOffset dst = l.dest(0);
  Inst& result = l.emit(barrier_result);
  result.dst = dst;
  result.extra = form;
}

void lower_cluster_arrive(Lowering& l) {
  l.emit(cluster_arrive).imm = l.inst->has(Mod::relaxed);
}
void lower_cluster_wait(Lowering& l) {
  l.emit(cluster_wait);
}

constexpr LowerRow kRows[] = {
    {Opcode::bra, lower_bra},
    {Opcode::brx_idx, lower_brx},
    {Opcode::call, lower_call},
    {Opcode::ret, lower_ret},
    {Opcode::exit, lower_exit},
    {Opcode::trap, lower_trap},
    {Opcode::brkpt, lower_nothing},
    {Opcode::pmevent, lower_nothing},
    {Opcode::setmaxnreg, lower_nothing},
    {Opcode::bar_sync, lower_barrier},
    {Opcode::bar_arrive, lower_barrier},
    {Opcode::bar_red, lower_barrier_red},
    {Opcode::barrier_sync, lower_barrier},
    {Opcode::barrier_arrive, lower_barrier},
    {Opcode::barrier_red, lower_barrier_red},
    {Opcode::barrier_cluster_arrive, lower_cluster_arrive},
    {Opcode::barrier_cluster_wait, lower_cluster_wait},
};

}  // namespace

std::span<const LowerRow> control_rows() {
  return kRows;
}

Handler join_handler() {
  return join;
}
Handler end_handler() {
  return end;
}
Handler unsupported_handler() {
  return unsupported;
}
Handler not_predicate_handler() {
  return not_predicate;
}

}  // namespace assay::vgpu::ASSAY_BUILD
