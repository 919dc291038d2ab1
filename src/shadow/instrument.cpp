// Inserts the Insts that follow errors around those of a function.
#include <algorithm>

#include "shadow/emitter.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::shadow {

namespace shadow_avx2 {
const Handlers& table();
}
namespace shadow_avx512 {
const Handlers& table();
}

// Both instruction sets, or the one that the engine was compiled for.
const Handlers& handlers() {
#if defined(ASSAY_HAS_AVX2) && defined(ASSAY_HAS_AVX512)
  return vgpu::uses_avx512() ? shadow_avx512::table() : shadow_avx2::table();
#elif defined(ASSAY_HAS_AVX512)
  return shadow_avx512::table();
#else
  return shadow_avx2::table();
#endif
}

namespace {

std::string operation_of(const vgpu::Program& program, const ptx::Function& function,
                         const ptx::Instruction& inst) {
  std::string text = ptx::print(program.module, function, inst);
  if (!text.empty() && text[0] == '@') text.erase(0, text.find_first_of(" \t") + 1);
  return text.substr(0, text.find_first_of(" \t;"));
}

}  // namespace

void Emitter::before() {
  switch (plan_.kind) {
    case Kind::None:
      return;
    case Kind::Arithmetic:
      return arithmetic();
    case Kind::Integral:
      return integral();
    case Kind::ToInteger:
      return to_integer();
    case Kind::Move:
      return move(handlers().move);
    case Kind::Select:
      return select();
    case Kind::Merge:
      return merge();
    case Kind::Bits:
      return bits();
    case Kind::Cut:
      return cut();
    case Kind::Compare:
      return compare();
    case Kind::Load:
      return load();
    case Kind::Store:
      return store();
    case Kind::Atomic:
      return atomic();
    case Kind::AsyncCopy:
      return access(*l_.extra<AccessForm>(), handlers().async_copy);
    case Kind::BulkCopy:
      return access(*l_.extra<AccessForm>(), handlers().bulk_copy);
    case Kind::Call:
      return lose_arguments();
    case Kind::Unseen:
      return access(*l_.extra<AccessForm>(), handlers().unseen);
    case Kind::Shuffle:
      return shuffle();
    case Kind::Product:
      return product();
    case Kind::LoadMatrix:
    case Kind::StoreMatrix:
      return;  // afterwards
    case Kind::Other:
      return forget();
  }
}

void Emitter::after() {
  const uint32_t end = l_.position();
  const bool refused = end > 0 && l_.emitted(end - 1).run == l_.program().engine->unsupported;
  if (impl_.pending.form != nullptr) {
    impl_.pending.form->insts = end - impl_.pending.position - 1;
    if (impl_.pending.access != nullptr) {
      impl_.pending.access->displacement = impl_.pending.form->insts;
      if (refused) impl_.pending.access->cells = nullptr;
    }
    impl_.pending = {};
  }
  if (impl_.shuffle != nullptr) emit_after(handlers().shuffle, std::exchange(impl_.shuffle, nullptr));
  if (impl_.product != nullptr) emit_after(handlers().product, std::exchange(impl_.product, nullptr));
  if ((plan_.kind == Kind::LoadMatrix || plan_.kind == Kind::StoreMatrix) && !refused) matrix();
}

PlaneOffset Emitter::errors_of(uint32_t reg, uint32_t byte) {
  if (!impl_.current->followed(reg, byte)) return 0;
  const auto [it, fresh] = impl_.errors.try_emplace({l_.reg(reg), byte}, 0);
  if (fresh) it->second = l_.storage(sizeof(RegisterErrors));
  return it->second;
}

PlaneOffset Emitter::errors_of(const Operand& operand, uint32_t byte) {
  return operand.kind == OperandKind::Register ? errors_of(operand.index, byte) : 0;
}

Element Emitter::source(const Part& part) {
  Element e = shape(part);
  e.plane = l_.source(*part.operand, part.read_as);
  if (part.number < Number::S8) e.errors = errors_of(*part.operand, part.home());
  return e;
}

Element Emitter::dest(const Part& part) {
  Element e = shape(part);
  e.plane = l_.reg(part.operand->index);
  e.errors = errors_of(*part.operand, part.home());
  return e;
}

Element Emitter::shape(const Part& part) const {
  Element e;
  e.lane_bytes = static_cast<uint16_t>(l_.lane_bytes(*part.operand, part.read_as));
  e.offset = part.offset;
  e.number = part.number;
  return e;
}

Site* Emitter::site() {
  Site& s = impl_.sites.emplace_back();
  const LineKey key = line_of(l_.program(), l_.decoded(), body_index_);
  s.file = key.first, s.line = key.second;
  s.operation = operation_of(l_.program(), l_.function, inst_);
  s.group = impl_.group;
  s.rounds = plan_.rounds;
  return &s;
}

bool Emitter::writes_followed() const {
  return std::any_of(plan_.writes.begin(), plan_.writes.end(),
                     [&](uint32_t r) { return impl_.current->followed(r) != 0; });
}

void Emitter::emit(Handler handler, Form& form, AccessForm* access) {
  impl_.pending = {&form, access, l_.position()};
  l_.emit(handler).extra = &form;
}

void Emitter::arithmetic() {
  if (inst_.operands[0].kind != OperandKind::Register || plan_.parts.size() > kMaxParts) return;
  bool matters = writes_followed();
  const Number to = plan_.parts[0].to.number;
  matters |= to != Number::F64 && !plan_.gives.empty();
  if (!matters) return;
  auto& f = *l_.extra<ArithmeticForm>();
  f.site = site();
  f.parts = static_cast<uint32_t>(plan_.parts.size());
  f.clamps = plan_.clamps, f.clamps_below = plan_.clamps_below, f.rounds = plan_.rounds;
  f.adds = plan_.op == Op::Add || plan_.op == Op::Sub || plan_.op == Op::Fma;
  f.adds_product = plan_.op == Op::Fma;
  for (uint32_t p = 0; p < f.parts; ++p) {
    f.to[p] = dest(plan_.parts[p].to);
    f.sources = 0;
    for (uint32_t s = 0; s < 3 && plan_.parts[p].from[s].operand != nullptr; ++s, ++f.sources)
      f.from[p][s] = source(plan_.parts[p].from[s]);
  }
  emit(handlers().arithmetic[static_cast<size_t>(plan_.op)], f);
}

uint8_t Emitter::rounding_of(const ptx::Instruction& inst) {
  return inst.has(Mod::rzi)   ? 'z'
         : inst.has(Mod::rmi) ? 'm'
         : inst.has(Mod::rpi) ? 'p'
         : inst.has(Mod::rni) ? 'n'
                              : 0;
}

void Emitter::integral() {
  if (inst_.operands[0].kind != OperandKind::Register) return;
  for (const PartOp& part : plan_.parts) {
    auto& f = *l_.extra<CompareForm>();
    f.a = source(part.from[0]);
    f.b = dest(part.to);
    if (f.a.errors == 0 && f.b.errors == 0) continue;
    f.site = site();
    f.site->decision = "rounding to a whole number";
    f.rounding = plan_.on_purpose ? 0 : rounding_of(inst_);
    l_.emit(handlers().integral).extra = static_cast<Form*>(&f);
  }
}

void Emitter::to_integer() {
  if (inst_.operands[0].kind != OperandKind::Register || plan_.parts.size() != 1) return;
  auto& f = *l_.extra<CompareForm>();
  f.a = source(plan_.parts[0].from[0]);
  f.b = dest(plan_.parts[0].to);
  if (f.a.errors == 0 && f.b.errors == 0) return;
  f.site = site();
  f.site->decision = "conversion to an integer";
  f.rounding = rounding_of(inst_);
  emit(handlers().to_integer, f);
}

void Emitter::compare() {
  auto& f = *l_.extra<CompareForm>();
  f.a = source(plan_.parts[0].from[0]);
  f.b = source(plan_.parts[0].from[1]);
  if (f.a.errors == 0 && f.b.errors == 0) return;
  constexpr std::pair<Mod, Comparison> kComparisons[] = {
      {Mod::eq, Comparison::Eq},  {Mod::ne, Comparison::Ne},  {Mod::lt, Comparison::Lt},
      {Mod::le, Comparison::Le},  {Mod::gt, Comparison::Gt},  {Mod::ge, Comparison::Ge},
      {Mod::equ, Comparison::Eq}, {Mod::neu, Comparison::Ne}, {Mod::ltu, Comparison::Lt},
      {Mod::leu, Comparison::Le}, {Mod::gtu, Comparison::Gt}, {Mod::geu, Comparison::Ge},
  };
  for (const auto& [mod, comparison] : kComparisons)
    if (inst_.has(mod)) f.comparison = comparison;
  f.site = site();
  f.site->decision = "comparison";
  l_.emit(handlers().compare).extra = static_cast<Form*>(&f);
}

void Shadow::begin(Lowering& l) {
  impl_->current = std::make_unique<Flow>(l.function);
  impl_->group = &impl_->groups.emplace_back(
      Group{impl_.get(), ranked_lines(*impl_->current, l.program(), l.decoded())});
  impl_->errors.clear();
}

void Shadow::before(Lowering& l) {
  impl_->pending = {};
  Emitter(*impl_, l).before();
}

void Shadow::after(Lowering& l) {
  Emitter(*impl_, l).after();
}

}  // namespace assay::shadow
