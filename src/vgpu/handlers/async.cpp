// cp.async, mbarrier and bulk copies: from PTX to the forms of vgpu/async.h, which does the work.
#include "vgpu/async.h"

#include "vgpu/handlers/access.h"
#include "vgpu/mbarrier.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// ---- Addresses ----

// Spaces named by the modifiers, in order: destination first.
Space nth_space(const ptx::Instruction& inst, size_t n) {
  for (Mod mod : inst.mods) {
    Space space = Space::None;
    if (mod == Mod::global) space = Space::Global;
    if (mod == Mod::shared || mod == Mod::shared_cta || mod == Mod::shared_cluster) space = Space::Shared;
    if (space != Space::None && n-- == 0) return space;
  }
  return Space::Generic;
}

void lower_place(Lowering& l, PlaceForm& place, size_t operand, Space space, AccessKind kind,
                 uint32_t bytes) {
  place.form.kind = kind;
  place.form.bytes = bytes;
  place.form.asynchronous = true;
  const AddressPlane at = lower_address(l, l.inst->operands.at(operand), space, place.form);
  place.at.a = at.base;
  place.at.imm = at.offset;
}

// Once the instruction is emitted, its places know where they are.
void locate(PlaceForm& place, const Inst& inst) {
  const PlaneOffset base = place.at.a;
  const int64_t offset = place.at.imm;
  place.at = inst;
  place.at.a = base;
  place.at.imm = offset;
}

void lower_barrier_place(Lowering& l, PlaceForm& place, size_t operand, Space space) {
  lower_place(l, place, operand, space, AccessKind::Atomic, 8);
  place.form.asynchronous = false;  // what arrives is counted; no bytes are on their way
  place.form.order = Order::Release;
  place.form.scope = Scope::Cluster;
}

// ---- cp.async ----

void lower_cp_async(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<CopyForm>();
  const auto bytes = static_cast<uint32_t>(inst.operands.at(2).bits);
  if (bytes != 4 && bytes != 8 && bytes != 16) return l.unsupported("this size");
  lower_place(l, form.to, 0, Space::Shared, AccessKind::Store, bytes);
  lower_place(l, form.from, 1, Space::Global, AccessKind::Load, bytes);
  for (size_t n = 3; n < inst.operands.size(); ++n) {
    const Operand& operand = inst.operands[n];
    const bool is_register = operand.kind == Operand::Kind::Register;
    if (is_register && l.function.registers.at(operand.index).type == Type::Pred) {
      form.has_ignore = true;
      form.ignore = l.source(operand, Type::Pred);
    } else if (is_register && l.lane_bytes(operand, Type::B32) == 8) {
      continue;  // a cache policy
    } else {
      form.has_size = true;
      form.size = l.source(operand, Type::U32);
    }
  }
  Inst& out = l.emit(copy_async);
  out.a = form.to.at.a;
  out.imm = form.to.at.imm;
  out.extra = &form;
  locate(form.to, out);
  locate(form.from, out);
}

void lower_commit(Lowering& l) {
  l.emit(l.inst->opcode == Opcode::cp_async_commit_group ? commit_copies : commit_bulk);
}

void lower_wait(Lowering& l) {
  const bool bulk = l.inst->opcode == Opcode::cp_async_bulk_wait_group;
  const bool all = l.inst->opcode == Opcode::cp_async_wait_all;
  l.emit(bulk ? wait_bulk : wait_copies).imm = all ? -1 : static_cast<int64_t>(l.inst->operands.at(0).bits);
}

void lower_arrive_after(Lowering& l) {
  auto& form = *l.extra<PlaceForm>();
  const Space space = nth_space(*l.inst, 0);
  lower_barrier_place(l, form, 0, space);
  form.form.asynchronous = false;  // its copies are done by then
  form.form.mbarrier = true;
  Inst& out = l.emit(arrive_after_copies);
  out.a = form.at.a;
  out.extra = &form;
  locate(form, out);
  out.imm = l.inst->has(Mod::noinc) ? 1 : 0;
}

// ---- Bulk copies ----

void lower_bulk(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<CopyForm>();
  const bool reduces = inst.opcode == Opcode::cp_reduce_async_bulk;
  if (reduces) {
    form.reduce = reduction_of(inst);
    if (form.reduce == nullptr) return l.unsupported("this operation on this type");
    if (nth_space(inst, 0) == Space::Global) l.order_dependent_atomics();
  }
  lower_place(l, form.to, 0, nth_space(inst, 0), reduces ? AccessKind::Reduction : AccessKind::Store, 16);
  lower_place(l, form.from, 1, nth_space(inst, 1), AccessKind::Load, 16);
  form.size = l.source(2, Type::U32);
  form.has_barrier = inst.has(Mod::mbarrier_complete_tx_bytes);
  if (!form.has_barrier)
    form.from.form.order = Order::Relaxed;  // no plain load: it goes on until its group is waited for
  size_t next = 3;
  if (form.has_barrier) lower_barrier_place(l, form.barrier, next++, Space::Shared);
  form.multicast = inst.has(Mod::multicast_cluster);
  if (form.multicast) form.blocks = l.source(next++, Type::U16);
  if (inst.has(Mod::L2_cache_hint)) ++next;
  form.has_byte_mask = inst.has(Mod::cp_mask);
  if (form.has_byte_mask) form.byte_mask = l.source(next, Type::U16);
  if (form.multicast && l.lane_bytes(inst.operands.at(4), Type::U16) != 2)
    return l.unsupported("a wide mask of blocks");
  Inst& out = l.emit(copy_bulk);
  out.a = form.to.at.a;
  out.extra = &form;
  locate(form.to, out);
  locate(form.from, out);
  locate(form.barrier, out);
}

// ---- st.async, red.async ----

void lower_store_async(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<RemoteStoreForm>();
  const Type type = inst.type();
  const bool reduces = inst.opcode == Opcode::red_async;
  form.has_barrier = inst.has(Mod::mbarrier_complete_tx_bytes);
  if (reduces && (form.reduce = reduction_of(inst)) == nullptr)
    return l.unsupported("this operation on this type");
  const Operand& value = inst.operands.at(1);
  const bool vector = value.kind == Operand::Kind::Vector;
  MemoryForm& memory = form.to.form;
  memory.count = static_cast<uint8_t>(vector ? value.elements.size() : 1);
  memory.element_bytes = static_cast<uint8_t>(ptx::size_of(type));
  if (memory.count > 4 || memory.element_bytes > 8) return l.unsupported("this vector");
  Space space = nth_space(inst, 0);
  if (space == Space::Generic) space = form.has_barrier ? Space::Shared : Space::Global;
  lower_place(l, form.to, 0, space, reduces ? AccessKind::Reduction : AccessKind::Store,
              uint32_t{memory.element_bytes} * memory.count);
  for (uint32_t e = 0; e < memory.count; ++e) {
    const Operand& one = vector ? value.elements[e] : value;
    memory.planes[e] = l.source(one, type);
    memory.register_bytes[e] = static_cast<uint8_t>(l.lane_bytes(one, type));
  }
  if (form.has_barrier) lower_barrier_place(l, form.barrier, 2, Space::Shared);
  Inst& out = l.emit(store_async);
  out.a = form.to.at.a;
  out.extra = &form;
  locate(form.to, out);
  locate(form.barrier, out);
}

// st.bulk: zeros over a run of shared memory.
const Inst* clear_run(Warp& w, const Inst& i) {
  const auto& place = *static_cast<const PlaceForm*>(i.extra);
  const uint64_t* size = w.plane<uint64_t>(i.b);
  const uint32_t lanes = w.lanes_of(i);
  Address addresses[kWarpSize];
  lane_addresses(w, i, place.form, addresses);
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<uint32_t>(__builtin_ctz(rest));
    MemoryForm form = place.form;
    form.bytes = static_cast<uint32_t>(size[l]);
    LaneAccess access;
    if (size[l] >> 32 != 0 || form.bytes % 8 != 0)
      return fault(w, i, FaultInfo::Kind::MisalignedAddress, l, "the size of st.bulk is not a multiple of 8");
    if (!resolve(w, i, form, 1u << l, addresses, 8, access)) return nullptr;
    announce(w, i, form, access, nullptr);
    if (access.lanes == 0) continue;
    std::memset(access.host[l], 0, form.bytes);
    write_undefined(access, l, 0, form.bytes, nullptr);
  }
  return &i + 1;
}

void lower_st_bulk(Lowering& l) {
  auto& form = *l.extra<PlaceForm>();
  if (l.inst->operands.at(2).bits != 0) return l.unsupported("a value other than zero");
  const Space space = nth_space(*l.inst, 0);
  lower_place(l, form, 0, space, AccessKind::Store, 8);
  form.form.asynchronous = false;
  if (l.lane_bytes(l.inst->operands.at(1), Type::U64) != 8) return l.unsupported("a 32-bit size");
  const PlaneOffset size = l.source(1, Type::U64);
  Inst& out = l.emit(clear_run);
  out.a = form.at.a;
  out.imm = form.at.imm;
  out.b = size;
  out.extra = &form;
}

// ---- mbarrier ----

struct ActionRow {
  Opcode opcode;
  BarrierAction action;
};
constexpr ActionRow kActions[] = {
    {Opcode::mbarrier_init, BarrierAction::Init},
    {Opcode::mbarrier_inval, BarrierAction::Invalidate},
    {Opcode::mbarrier_arrive, BarrierAction::Arrive},
    {Opcode::mbarrier_arrive_drop, BarrierAction::ArriveDrop},
    {Opcode::mbarrier_expect_tx, BarrierAction::ExpectTx},
    {Opcode::mbarrier_complete_tx, BarrierAction::CompleteTx},
    {Opcode::mbarrier_test_wait, BarrierAction::TestWait},
    {Opcode::mbarrier_try_wait, BarrierAction::TestWait},
};

void lower_barrier(Lowering& l) {
  const ptx::Instruction& inst = *l.inst;
  auto& form = *l.extra<BarrierForm>();
  for (const ActionRow& row : kActions)
    if (row.opcode == inst.opcode) form.action = row.action;
  const bool arrives = form.action == BarrierAction::Arrive || form.action == BarrierAction::ArriveDrop;
  const bool waits = form.action == BarrierAction::TestWait;
  const size_t place = arrives || waits ? 1 : 0;
  form.expects = inst.has(Mod::expect_tx);
  form.no_complete = inst.has(Mod::noComplete);
  form.parity = inst.has(Mod::parity);
  form.form.kind = waits ? AccessKind::Load
                   : form.action == BarrierAction::Init || form.action == BarrierAction::Invalidate
                       ? AccessKind::Store
                       : AccessKind::Atomic;
  form.form.bytes = 8;
  form.form.order = order_of(inst, waits ? Order::Acquire : arrives ? Order::Release : Order::Relaxed);
  if (form.form.kind == AccessKind::Store) form.form.order = Order::Weak;
  form.form.mbarrier = form.action != BarrierAction::Init;
  form.has_scope = inst.has(Mod::cta) || inst.has(Mod::cluster);
  form.form.scope = scope_of(inst, Scope::Block);
  const AddressPlane at = lower_address(l, inst.operands.at(place), nth_space(inst, 0), form.form);
  form.has_count = inst.operands.size() > place + 1;
  if (waits) {
    form.count = l.source(place + 1, form.parity ? Type::U32 : Type::B64);
    form.state = l.dest(inst.operands[0], Type::Pred);
  } else if (form.has_count) {
    form.count = l.source(place + 1, Type::U32);
  }
  form.has_state = arrives && inst.operands[0].kind == Operand::Kind::Register;
  if (form.has_state) form.state = l.dest(inst.operands[0], Type::B64);
  Inst& out = l.emit(barrier_action);
  out.a = at.base;
  out.imm = at.offset;
  out.extra = &form;
}

struct Pending {
  static uint32_t apply(uint64_t state) { return BarrierWord::unpack(state).pending; }
};

void lower_pending_count(Lowering& l) {
  const PlaneOffset a = l.source(1, Type::B64), d = l.dest(l.inst->operands.at(0), Type::U32);
  Inst& out = l.emit(map1<Pending, uint32_t, uint64_t>);
  out.dst = d;
  out.a = a;
}

void lower_tensor_map(Lowering& l) {
  l.unsupported("copies through tensor maps");
}

void lower_multimem(Lowering& l) {
  l.unsupported("multimem addresses");
}

constexpr LowerRow kRows[] = {
    {Opcode::cp_async, lower_cp_async},
    {Opcode::cp_async_commit_group, lower_commit},
    {Opcode::cp_async_wait_group, lower_wait},
    {Opcode::cp_async_wait_all, lower_wait},
    {Opcode::cp_async_mbarrier_arrive, lower_arrive_after},
    {Opcode::cp_async_bulk, lower_bulk},
    {Opcode::cp_async_bulk_commit_group, lower_commit},
    {Opcode::cp_async_bulk_wait_group, lower_wait},
    {Opcode::cp_reduce_async_bulk, lower_bulk},
    {Opcode::st_async, lower_store_async},
    {Opcode::red_async, lower_store_async},
    {Opcode::st_bulk, lower_st_bulk},
    {Opcode::mbarrier_init, lower_barrier},
    {Opcode::mbarrier_inval, lower_barrier},
    {Opcode::mbarrier_arrive, lower_barrier},
    {Opcode::mbarrier_arrive_drop, lower_barrier},
    {Opcode::mbarrier_expect_tx, lower_barrier},
    {Opcode::mbarrier_complete_tx, lower_barrier},
    {Opcode::mbarrier_test_wait, lower_barrier},
    {Opcode::mbarrier_try_wait, lower_barrier},
    {Opcode::mbarrier_pending_count, lower_pending_count},
    {Opcode::cp_async_bulk_tensor, lower_tensor_map},
    {Opcode::cp_async_bulk_prefetch_tensor, lower_tensor_map},
    {Opcode::cp_reduce_async_bulk_tensor, lower_tensor_map},
    {Opcode::tensormap_cp_fenceproxy, lower_tensor_map},
    {Opcode::tensormap_replace, lower_tensor_map},
    {Opcode::multimem_cp_async_bulk, lower_multimem},
    {Opcode::multimem_cp_reduce_async_bulk, lower_multimem},
    {Opcode::multimem_ld_reduce, lower_multimem},
    {Opcode::multimem_red, lower_multimem},
    {Opcode::multimem_st, lower_multimem},
};

}  // namespace

std::span<const LowerRow> async_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
