// Control, entries and exits, registers and planes.
#include "compiler/emit.h"

#include <algorithm>
#include <cstddef>

#include "compiler/emitter.h"
#include "vgpu/grid.h"
#include "vgpu/warp.h"

// Warp, Block and GridContext have members with constructors; where the others lie is known all the same.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace assay::compiler {

using vgpu::Block;
using vgpu::CompiledRuntime;
using vgpu::GridContext;
using vgpu::Inst;
using vgpu::Warp;

Emitter::Emitter(Ir& ir, const vgpu::CompileRequest& request, const Flow& flow,
                 const std::vector<Form>& forms)
    : ir_(ir), request_(request), flow_(flow), forms_(forms), kernel_(*request.function) {}

void Emitter::run(vgpu::CompiledObject& object) {
  object_ = &object;
  TypeRef p = ir_.pointer();
  TypeRef arguments[] = {p, p, ir_.integer(32), p};
  ir_.function = LLVMAddFunction(ir_.module, "compiled", LLVMFunctionType(p, arguments, 4, 0));
  for (const auto& [key, value] : {std::pair{"min-legal-vector-width", "512"},
                                   std::pair{"prefer-vector-width", "512"}, std::pair{"nounwind", ""}})
    LLVMAddAttributeAtIndex(
        ir_.function, LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(ir_.context, key, __builtin_strlen(key), value, __builtin_strlen(value)));
  warp_ = LLVMGetParam(ir_.function, 0);
  code_ = LLVMGetParam(ir_.function, 1);
  runtime_ = LLVMGetParam(ir_.function, 3);
  const size_t count = kernel_.ptx->body.size();
  BlockRef start = ir_.block("start");
  blocks_.resize(count + 1);
  exit_of_.resize(count + 1);
  for (size_t i = 0; i <= count; ++i)
    if (flow_.starts_block[i] || i == count) blocks_[i] = ir_.block("b");
  ir_.at(start);
  find_loose();
  find_dirty();
  make_variables();
  read_warp();
  emit_entries(LLVMGetParam(ir_.function, 2));
  bool open = false;
  for (size_t i = 0; i < count; ++i) {
    if (blocks_[i]) {
      if (open) ir_.go(blocks_[i]);
      ir_.at(blocks_[i]);
      if (flow_.ranges[i].has_join) this->count(flow_.ranges[i].first - 1);
      open = true;
    }
    if (!open) continue;
    emit_instruction(i);
    open = LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(ir_.b)) == nullptr;
  }
  if (open) ir_.go(blocks_[count]);
  ir_.at(blocks_[count]);
  ir_.go(exit_at(count));
  emit_exits();
}

// A register is loose only if all that is ever written to it may be: what is loaded or computed as an integer keeps
// its bits, even if they look like a NaN.
void Emitter::find_loose() {
  loose_.assign(forms_.size(), false);
  for (const Operation& op : flow_.operations)
    if (op.code >= Code::FloatAdd && op.code <= Code::FloatAbs)
      for (uint32_t r : op.to) loose_[r] = true;
  const auto may_be = [&](const Source& s) {
    return s.kind == Source::Kind::Register
               ? loose_[s.reg]
               : s.kind == Source::Kind::Constant && (s.bits & 0x7fffffff) <= 0x7f800000;
  };
  for (const Operation& op : flow_.operations)  // copies of loose ones, as far as they go
    if (op.code == Code::Mov && op.bits == 32 && op.from[0].kind == Source::Kind::Register &&
        may_be(op.from[0]))
      loose_[op.to[0]] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < flow_.operations.size(); ++i) {
      const Operation& op = flow_.operations[i];
      bool makes = op.code >= Code::FloatAdd && op.code <= Code::FloatAbs;
      if (op.code == Code::Mov && op.bits == 32) makes = may_be(op.from[0]);
      if (op.code == Code::Select && op.bits == 32) makes = may_be(op.from[0]) && may_be(op.from[1]);
      if (makes) continue;
      for (uint32_t r : request_.effects[i].writes) {
        changed |= loose_[r];
        loose_[r] = false;
      }
    }
  }
}

unsigned Emitter::bits_of(uint32_t reg) const {
  return compiler::bits_of(kernel_, reg);
}

// A register whose lanes are known from one or two of them.
bool Emitter::is_known_by_first_lanes(uint32_t reg) const {
  return !is_predicate(reg) && bits_of(reg) <= 64 && forms_[reg].is_scalar() && !loose_[reg];
}

void Emitter::find_dirty() {
  Registers first_lanes(flow_.live[0].size());
  for (uint32_t r = 0; r < forms_.size(); ++r)
    if (is_known_by_first_lanes(r)) first_lanes[r / 64] |= uint64_t{1} << (r % 64);
  dirty_ = dirty_of(request_, flow_, first_lanes);
}

void Emitter::make_variables() {
  variables_.resize(forms_.size());
  for (uint32_t r = 0; r < forms_.size(); ++r) {
    const unsigned bits = bits_of(r);
    if (bits > 64) continue;  // never in a variable: only handlers read and write it
    const Form& f = forms_[r];
    TypeRef type = bits == 1       ? ir_.integer(32)
                   : f.is_scalar() ? ir_.integer(bits)
                                   : ir_.vector(ir_.integer(bits));
    variables_[r].part[0] = LLVMBuildAlloca(ir_.b, type, "");
    if (bits > 1 && f.is_scalar() && f.two) variables_[r].part[1] = LLVMBuildAlloca(ir_.b, type, "");
  }
  counted_ = LLVMBuildAlloca(ir_.b, ir_.integer(64), "counted");
  slice_ = LLVMBuildAlloca(ir_.b, ir_.integer(64), "slice");
}

void Emitter::read_warp() {
  TypeRef p = ir_.pointer();
  const auto field = [&](Value of, size_t at, TypeRef type) { return ir_.load(type, ir_.offset(of, at), 4); };
  planes_ = field(warp_, offsetof(Warp, planes), p);
  if (request_.watched) poison_ = field(warp_, offsetof(Warp, poison), p);
  sites_ = field(warp_, offsetof(Warp, sites), p);
  Value block = field(warp_, offsetof(Warp, block), p);
  Value grid = field(warp_, offsetof(Warp, grid), p);
  shared_ = field(block, offsetof(Block, shared), p);
  shared_bytes_ =
      LLVMBuildZExt(ir_.b, field(block, offsetof(Block, shared_bytes), ir_.integer(32)), ir_.integer(64), "");
  parameters_ = field(grid, offsetof(GridContext, parameters), p);
  Value index = ir_.both(field(warp_, offsetof(Warp, index), ir_.integer(32)),
                         ir_.constant(32, vgpu::SiteRange::kWarpsApart - 1));
  own_last_ = LLVMBuildMul(ir_.b, LLVMBuildZExt(ir_.b, index, ir_.integer(64), ""),
                           ir_.constant(64, sizeof(vgpu::Address)), "");
  if (request_.watched) {
    const auto flag = [&](size_t at) {
      return ir_.compare(LLVMIntNE, ir_.load(ir_.integer(8), ir_.offset(runtime_, at), 1),
                         ir_.constant(8, 0));
    };
    shared_initialised_ = field(block, offsetof(Block, shared_initialised), p);
    reports_global_ = flag(offsetof(CompiledRuntime, reports_global));
    reports_shared_ = flag(offsetof(CompiledRuntime, reports_shared));
    worker_ = field(warp_, offsetof(Warp, worker), p);
  }
  interpreted_ = field(runtime_, offsetof(CompiledRuntime, interpreted), p);
  LLVMBuildStore(ir_.b, ir_.constant(64, 0), counted_);
  LLVMBuildStore(ir_.b, field(warp_, offsetof(Warp, slice), ir_.integer(64)), slice_);
}

// ---- Counting: as the interpreter does at joins and branches ----

void Emitter::count(size_t inst) {
  const auto by = static_cast<uint64_t>(kernel_.code[inst].imm);
  Value now = LLVMBuildLoad2(ir_.b, ir_.integer(64), counted_, "");
  LLVMBuildStore(ir_.b, ir_.add(now, ir_.constant(64, by)), counted_);
}

void Emitter::flush_counts() {
  TypeRef wide = ir_.integer(64);
  Value counted = LLVMBuildLoad2(ir_.b, wide, counted_, "");
  Value executed = ir_.offset(warp_, offsetof(Warp, executed)),
        slice = ir_.offset(warp_, offsetof(Warp, slice));
  ir_.store(ir_.add(ir_.load(wide, executed, 8), counted), executed, 8);
  Value left = ir_.sub(LLVMBuildLoad2(ir_.b, wide, slice_, ""), counted);
  ir_.store(left, slice, 8);
  LLVMBuildStore(ir_.b, left, slice_);
  LLVMBuildStore(ir_.b, ir_.constant(64, 0), counted_);
}

// ---- Entries and exits ----

uint32_t Emitter::steps_of(const Form& f) {
  std::vector<vgpu::LaneSteps>& known = object_->steps;
  const auto found = std::find(known.begin(), known.end(), f.step);
  if (found != known.end()) return static_cast<uint32_t>(found - known.begin());
  known.push_back(f.step);
  std::vector<Value> lanes;
  for (int64_t s : f.step) lanes.push_back(ir_.constant(64, static_cast<uint64_t>(s)));
  Value table = LLVMConstArray(ir_.integer(64), lanes.data(), kLanes);
  Value global = LLVMAddGlobal(ir_.module, LLVMTypeOf(table), "steps");
  LLVMSetInitializer(global, table);
  LLVMSetGlobalConstant(global, 1);
  LLVMSetLinkage(global, LLVMPrivateLinkage);
  steps_.push_back(global);
  return static_cast<uint32_t>(known.size() - 1);
}

// Reads what is live there. Gives what the engine checks before it enters.
std::vector<vgpu::EntryCheck> Emitter::emit_entry(size_t i) {
  std::vector<vgpu::EntryCheck> checks;
  for_each(flow_.live[i], [&](uint32_t r) {
    const unsigned bits = bits_of(r);
    if (bits > 64) return;
    read_plane(r);
    const Form& f = forms_[r];
    vgpu::EntryCheck check{.plane = kernel_.register_planes[r],
                           .bits = static_cast<uint8_t>(bits),
                           .scalar = f.is_scalar(),
                           .two = f.two,
                           .constant = f.constant,
                           .value = f.value};
    if (check.scalar && bits > 1) check.steps = steps_of(f);
    if (check.scalar || request_.watched) checks.push_back(check);
  });
  ir_.go(blocks_[i]);
  return checks;
}

void Emitter::emit_entries(Value entry) {
  const size_t count = kernel_.ptx->body.size();
  BlockRef from = LLVMGetInsertBlock(ir_.b), nowhere = ir_.block("nowhere");
  std::vector<BlockRef> starts;
  for (size_t i = 0; i < count; ++i) {
    if (!flow_.is_entry[i]) continue;
    starts.push_back(ir_.block("entry"));
    ir_.at(starts.back());
    object_->checks.push_back(emit_entry(i));
    const InstRange& range = flow_.ranges[i];
    object_->entries.push_back(range.has_join ? range.first - 1 : range.first);
  }
  ir_.at(nowhere);
  LLVMBuildUnreachable(ir_.b);
  ir_.at(from);
  Value choice = LLVMBuildSwitch(ir_.b, entry, nowhere, static_cast<unsigned>(starts.size()));
  for (size_t e = 0; e < starts.size(); ++e) LLVMAddCase(choice, ir_.constant(32, e), starts[e]);
}

// Leaves before instruction i, behind its join.
BlockRef Emitter::exit_at(size_t i) {
  if (!exit_of_[i]) {
    exit_of_[i] = ir_.block("exit");
    exits_.push_back({exit_of_[i], i, false, {}});
  }
  return exit_of_[i];
}

void Emitter::emit_exits() {
  const size_t count = kernel_.ptx->body.size();
  for (const Exit& exit : exits_) {
    size_t i = exit.instruction;
    ir_.at(exit.block);
    // Not where a handler has just left something undefined: behind the barrier that has to be seen again.
    const bool comes_back = i < count && flow_.is_passed_together[i] && exit.except.empty();
    for_each(flow_.live[i], [&](uint32_t r) {
      const bool kept = std::find(exit.except.begin(), exit.except.end(), r) != exit.except.end();
      if (!contains(dirty_[i], r) || kept) return;
      if (comes_back && is_known_by_first_lanes(r))
        write_first_lanes(r);
      else
        write_plane(r);
    });
    flush_counts();
    while (i < count && flow_.ranges[i].first == flow_.ranges[i].last && !flow_.ranges[i].has_join) ++i;
    const bool at_join = i != exit.instruction || exit.at_join;
    const size_t inst = i == count ? kernel_.code.size() - 1
                                   : flow_.ranges[i].first - (at_join && flow_.ranges[i].has_join ? 1 : 0);
    if (comes_back && i == exit.instruction)
      ir_.store(inst_pointer(inst), ir_.offset(warp_, offsetof(Warp, left_at)), 8);
    LLVMBuildRet(ir_.b, inst_pointer(inst));
  }
}

Value Emitter::inst_pointer(size_t inst) const {
  return ir_.offset(code_, inst * sizeof(Inst));
}

// ---- Instructions ----

void Emitter::emit_instruction(size_t i) {
  const Operation& op = flow_.operations[i];
  switch (op.code) {
    case Code::Leave:
      ir_.go(exit_at(i));
      return;
    case Code::Call:
      return emit_call(i, false);
    case Code::CallThatMayWait:
      return emit_call(i, true);
    case Code::Branch:
      return emit_branch(i);
    case Code::Load:
    case Code::Store:
      return emit_access(i);
    case Code::LoadParameter:
      return emit_parameter(op);
    default:
      if (!emit_arithmetic(i)) ir_.go(exit_at(i));
  }
}

void Emitter::emit_branch(size_t i) {
  const Operation& op = flow_.operations[i];
  TypeRef wide = ir_.integer(64);
  const Inst& inst = kernel_.code[flow_.ranges[i].first];
  Value after =
      ir_.add(LLVMBuildLoad2(ir_.b, wide, counted_, ""), ir_.constant(64, static_cast<uint64_t>(inst.imm)));
  // A turn that is over, or lanes that part: the interpreter takes the branch.
  Value good = ir_.compare(LLVMIntSGE, LLVMBuildLoad2(ir_.b, wide, slice_, ""), after);
  Value taken = nullptr;
  if (op.guard != ptx::kNone) {
    Value m = mask(op.guard);
    if (op.guard_negated) m = LLVMBuildNot(ir_.b, m, "");
    taken = ir_.compare(LLVMIntNE, m, ir_.constant(32, 0));
    if (!forms_[op.guard].is_scalar()) {
      Value all = ir_.compare(LLVMIntEQ, m, ir_.constant(32, 0xffffffff));
      good = ir_.both(good, ir_.either(all, ir_.compare(LLVMIntEQ, m, ir_.constant(32, 0))));
    }
  }
  BlockRef goes = ir_.block("go");
  ir_.likely(good, goes, exit_at(i));
  ir_.at(goes);
  LLVMBuildStore(ir_.b, after, counted_);
  if (taken)
    ir_.branch(taken, blocks_[op.target], blocks_[i + 1]);
  else
    ir_.go(blocks_[op.target]);
}

void Emitter::call_handlers(size_t i) {
  TypeRef p = ir_.pointer();
  TypeRef arguments[] = {p, p};
  TypeRef type = LLVMFunctionType(p, arguments, 2, 0);
  for (uint32_t k = flow_.ranges[i].first; k < flow_.ranges[i].last; ++k) {
    Value handler =
        ir_.load(LLVMPointerType(type, 0), ir_.offset(interpreted_, k * sizeof(vgpu::Handler)), 8);
    Value given[] = {warp_, inst_pointer(k)};
    Value next = LLVMBuildCall2(ir_.b, type, handler, given, 2, "");
    BlockRef goes = ir_.block("called"), ends = ir_.block("ends");
    ir_.likely(ir_.compare(LLVMIntEQ, next, inst_pointer(k + 1)), goes, ends);
    ir_.at(ends);
    LLVMBuildRet(ir_.b, next);
    ir_.at(goes);
  }
}

void Emitter::reload(size_t i, const std::vector<uint32_t>& registers) {
  Value undefined = ir_.constant(32, 0);
  for (uint32_t r : registers) {
    if (bits_of(r) <= 64) read_plane(r);
    if (request_.watched) undefined = ir_.either(undefined, ir_.load(ir_.integer(32), poison(r), 4));
  }
  if (!request_.watched || registers.empty()) return;
  // Compiled code knows only defined values: the interpreter goes on with what the handler left in the planes.
  BlockRef goes = ir_.block("defined"), out = ir_.block("undefined");
  exits_.push_back({out, i + 1, true, registers});
  ir_.likely(ir_.compare(LLVMIntEQ, undefined, ir_.constant(32, 0)), goes, out);
  ir_.at(goes);
}

void Emitter::emit_call(size_t i, bool may_wait) {
  if (may_wait) {
    for_each(flow_.live[i], [&](uint32_t r) {
      if (contains(dirty_[i], r)) write_plane(r);
    });
    flush_counts();
  } else {
    Registers written(flow_.live[i].size());
    for (uint32_t r : request_.effects[i].reads) {
      if (!contains(dirty_[i], r) || contains(written, r)) continue;
      written[r / 64] |= uint64_t{1} << (r % 64);
      write_plane(r);
    }
    // Whether a load counts may depend on the predicate of a later selp (checks/race_sites.h): listeners look it up.
    if (request_.watched)
      for_each(flow_.live[i], [&](uint32_t r) {
        if (is_predicate(r) && contains(dirty_[i], r) && !contains(written, r)) write_plane(r);
      });
  }
  call_handlers(i);
  reload(i, request_.effects[i].writes);
}

// ---- Registers and planes ----

Value Emitter::plane(uint32_t reg, unsigned lane) const {
  return ir_.offset(planes_, kernel_.register_planes[reg] + uint64_t{lane} * bits_of(reg) / 8);
}

Value Emitter::poison(uint32_t reg) const {
  return ir_.offset(poison_, kernel_.register_planes[reg] / 64 * sizeof(uint32_t));
}

void Emitter::write_plane(uint32_t reg) {
  if (bits_of(reg) > 64) return;
  if (is_predicate(reg)) {
    ir_.store(mask(reg), plane(reg), 64);
  } else if (forms_[reg].is_scalar() && !loose_[reg]) {
    write_scalars(reg);
  } else {
    Value v = lanes(reg);
    ir_.store(loose_[reg] ? canonical(v, bits_of(reg)) : v, plane(reg), 64);
  }
  if (request_.watched) ir_.store(ir_.constant(32, 0), poison(reg), 4);
}

// What entries read of it.
void Emitter::write_first_lanes(uint32_t reg) {
  ir_.store(get(reg, 0), plane(reg), 64);
  if (forms_[reg].two) ir_.store(get(reg, 1), plane(reg, kLanes / 2), 16);
  if (request_.watched) ir_.store(ir_.constant(32, 0), poison(reg), 4);
}

// By a call: vectors of 64-bit lanes take LLVM longer than all the rest, and code rarely leaves with them.
void Emitter::write_scalars(uint32_t reg) {
  const Form& f = forms_[reg];
  const unsigned bits = bits_of(reg);
  TypeRef p = ir_.pointer(), wide = ir_.integer(64);
  TypeRef arguments[] = {p, wide, wide, p, ir_.integer(32)};
  TypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(ir_.context), arguments, 5, 0);
  Value spread =
      ir_.load(LLVMPointerType(type, 0), ir_.offset(runtime_, offsetof(CompiledRuntime, spread)), 8);
  const auto widened = [&](Value v) { return bits == 64 ? v : LLVMBuildZExt(ir_.b, v, wide, ""); };
  Value first = widened(get(reg, 0)), second = f.two ? widened(get(reg, 1)) : first;
  Value given[] = {plane(reg), first, second, ir_.cast(steps_[steps_of(f)], p), ir_.constant(32, bits)};
  LLVMBuildCall2(ir_.b, type, spread, given, 5, "");
}

void Emitter::read_plane(uint32_t reg) {
  const unsigned bits = bits_of(reg);
  const Form& f = forms_[reg];
  if (bits == 1) {
    set(reg, ir_.load(ir_.integer(32), plane(reg), 64));
  } else if (!f.is_scalar()) {
    set(reg, ir_.load(ir_.vector(ir_.integer(bits)), plane(reg), 64));
  } else {
    set(reg, ir_.load(ir_.integer(bits), plane(reg), 64), 0);
    if (f.two) set(reg, ir_.load(ir_.integer(bits), plane(reg, kLanes / 2), 16), 1);
  }
}

Value Emitter::get(uint32_t reg, unsigned half) {
  const Variable& v = variables_[reg];
  Value place = v.part[v.part[1] ? half : 0];
  TypeRef type = is_predicate(reg)         ? ir_.integer(32)
                 : forms_[reg].is_scalar() ? ir_.integer(bits_of(reg))
                                           : ir_.vector(ir_.integer(bits_of(reg)));
  return LLVMBuildLoad2(ir_.b, type, place, "");
}

Value Emitter::mask(uint32_t reg) {
  return get(reg, 0);
}

void Emitter::set(uint32_t reg, Value v, unsigned half) {
  LLVMBuildStore(ir_.b, v, variables_[reg].part[half]);
}

// All lanes of a scalar.
Value Emitter::spread(Value first, Value second, const Form& f, unsigned bits) {
  Value v;
  if (second) {
    std::vector<unsigned> order;
    for (unsigned l = 0; l < kLanes; ++l) order.push_back(l);
    v = ir_.shuffle(ir_.splat(first, kLanes / 2), ir_.splat(second, kLanes / 2), order);
  } else {
    v = ir_.splat(first);
  }
  std::vector<Value> steps;
  for (int64_t s : f.step) steps.push_back(ir_.constant(bits, static_cast<uint64_t>(s)));
  return f.is_flat() ? v : ir_.add(v, LLVMConstVector(steps.data(), kLanes));
}

Value Emitter::lanes(uint32_t reg) {
  const Form& f = forms_[reg];
  if (!f.is_scalar()) return get(reg, 0);
  return spread(get(reg, 0), f.two ? get(reg, 1) : nullptr, f, bits_of(reg));
}

Value Emitter::lanes(const Source& s, unsigned bits) {
  switch (s.kind) {
    case Source::Kind::Register:
      return lanes(s.reg);
    case Source::Kind::Constant:
      return ir_.splat(ir_.constant(bits, s.bits));
    case Source::Kind::Plane:
      break;
  }
  return ir_.load(ir_.vector(ir_.integer(bits)), ir_.offset(planes_, s.plane), 64);
}

// Of lane 0, or lane 16. The source has a scalar form.
Value Emitter::scalar(const Source& s, unsigned bits, unsigned half) {
  const Form f = form(s);
  if (s.kind == Source::Kind::Constant) return ir_.constant(bits, s.bits);
  if (s.kind == Source::Kind::Plane)
    return ir_.load(ir_.integer(bits), ir_.offset(planes_, s.plane + half * (kLanes / 2) * (bits / 8)),
                    bits / 8);
  Value v = get(s.reg, half);
  if (half == 0 || f.two) return v;
  const auto step = static_cast<uint64_t>(f.step[kLanes / 2]);
  return step == 0 ? v : ir_.add(v, ir_.constant(bits, step));
}

Value Emitter::canonical(Value v, unsigned bits) {
  if (bits != 32) return v;
  Value real = ir_.cast(v, like_real(v, bits));
  Value nan = LLVMBuildFCmp(ir_.b, LLVMRealUNO, real, real, "");
  return ir_.select(nan, ir_.like(v, 0x7fffffff), v);
}

Value Emitter::exact(Value v, const Source& s, unsigned bits) {
  return s.kind == Source::Kind::Register && loose_[s.reg] ? canonical(v, bits) : v;
}

void emit(Ir& ir, const vgpu::CompileRequest& request, const Flow& flow, const std::vector<Form>& forms,
          vgpu::CompiledObject& object) {
  Emitter(ir, request, flow, forms).run(object);
}

}  // namespace assay::compiler
