// The Insts for warp-wide instructions: shuffles and matrices.
#include <algorithm>
#include <cstdio>

#include "shadow/emitter.h"

namespace assay::shadow {

void Emitter::shuffle() {
  if (!writes_followed()) return;
  auto& f = *l_.extra<ShuffleForm>();
  f.site = site();
  f.lane = l_.source(2, Type::U32);
  f.limits = l_.source(3, Type::U32);
  f.mode = inst_.has(Mod::up) ? 'u' : inst_.has(Mod::down) ? 'd' : inst_.has(Mod::bfly) ? 'b' : 'i';
  bool keeps = false;
  for (uint32_t byte = 0; byte < 4; ++byte) {
    const PlaneOffset to = errors_of(inst_.operands[0], byte), from = errors_of(inst_.operands[1], byte);
    if (to == 0) continue;
    const PlaneOffset kept = to == from ? l_.storage(sizeof(RegisterErrors)) : 0;
    keeps |= kept != 0;
    f.moves[f.count++] = {to, from, kept};
  }
  if (keeps) l_.emit(handlers().keep_shuffled).extra = static_cast<Form*>(&f);
  impl_.shuffle = &f;
}

std::optional<std::pair<Number, uint32_t>> Emitter::fragment_number(Type type) {
  switch (type) {
    case Type::F64:
      return {{Number::F64, 1}};
    case Type::F32:
      return {{Number::F32, 1}};
    case Type::TF32:
      return {{Number::TF32, 1}};
    case Type::F16:
      return {{Number::F16, 2}};
    case Type::BF16:
      return {{Number::BF16, 2}};
    case Type::E4M3:
      return {{Number::E4M3, 4}};
    case Type::E5M2:
      return {{Number::E5M2, 4}};
    default:
      return std::nullopt;
  }
}

bool Emitter::fragment(Fragment& out, const Operand& operand, Type type) {
  const auto number = fragment_number(type);
  const size_t count = operand.kind == OperandKind::Vector ? operand.elements.size() : 1;
  if (!number || count > std::size(out.plane)) return false;
  out.number = number->first, out.parts = number->second, out.registers = static_cast<uint32_t>(count);
  const Type word = type == Type::F64 ? Type::F64 : type == Type::F32 ? Type::F32 : Type::B32;
  for (size_t r = 0; r < count; ++r) {
    const Operand& one = operand.kind == OperandKind::Vector ? operand.elements[r] : operand;
    if (one.kind == OperandKind::Sink) return false;
    out.plane[r] = l_.source(one, word);
    for (uint32_t p = 0; p < out.parts; ++p)
      out.errors[r][p] = errors_of(one, (p + 1) * size_of(out.number) - 1);
  }
  return true;
}

bool Emitter::shape_of(uint32_t& m, uint32_t& n, uint32_t& k) const {
  for (Mod mod : inst_.mods) {
    unsigned a = 0, b = 0, c = 0;
    if (std::sscanf(std::string(ptx::name(mod)).c_str(), "m%un%uk%u", &a, &b, &c) == 3) {
      m = a, n = b, k = c;
      return m <= 32 && n <= 32 && k <= 32;
    }
  }
  return false;
}

void Emitter::product() {
  if (!writes_followed()) return;
  auto& f = *l_.extra<ProductForm>();
  f.wmma = inst_.opcode == Opcode::wmma_mma;
  const bool short_form = inst_.types.size() == 2;
  f.d_type = inst_.type(0);
  f.a_type = short_form ? Type::F16 : inst_.type(1);
  f.b_type = short_form ? Type::F16 : inst_.type(2);
  f.c_type = short_form ? inst_.type(1) : inst_.type(3);
  const auto& o = inst_.operands;
  if (!shape_of(f.m, f.n, f.k) || !fragment(f.d, o[0], f.d_type) || !fragment(f.a, o[1], f.a_type) ||
      !fragment(f.b, o[2], f.b_type) || !fragment(f.c, o[3], f.c_type))
    return forget();
  f.site = site();
  const Fragment* fragments[] = {&f.a, &f.b, &f.c, &f.d};
  for (size_t i = 0; i < 4; ++i)
    f.index[i] = l_.extra_array<uint16_t>(size_t{fragments[i]->registers} * fragments[i]->parts *
                                          vgpu::kLanesPerPlane);
  handlers().fill_index(f);
  f.kept = f.c;
  bool keeps = false;
  for (uint32_t r = 0; r < f.c.registers; ++r) {
    if (std::find(f.d.plane, f.d.plane + f.d.registers, f.c.plane[r]) == f.d.plane + f.d.registers) continue;
    keeps = true;
    f.kept.plane[r] = l_.scratch(f.c.number == Number::F64 ? 8 : 4);
    for (uint32_t p = 0; p < f.c.parts; ++p)
      if (f.c.errors[r][p] != 0) f.kept.errors[r][p] = l_.storage(sizeof(RegisterErrors));
  }
  if (keeps) l_.emit(handlers().keep_product).extra = static_cast<Form*>(&f);
  impl_.product = &f;
}

void Emitter::matrix() {
  const bool loads = plan_.kind == Kind::LoadMatrix;
  if (loads && !writes_followed()) return;
  auto& f = *l_.extra<MatrixForm>();
  f.plain = inst_.opcode == Opcode::ldmatrix || inst_.opcode == Opcode::stmatrix;
  f.transposed = inst_.has(Mod::trans);
  f.columns = inst_.has(Mod::col);
  f.type = f.plain ? Type::BF16 : inst_.type();
  f.matrix = inst_.opcode == Opcode::wmma_load_a ? 0 : inst_.opcode == Opcode::wmma_load_b ? 1 : 2;
  f.displacement = 1;
  f.cells = &impl_.cells;
  f.site = site();
  if (!f.plain && !shape_of(f.m, f.n, f.k)) return;
  if (!fragment(f.fragment, inst_.operands[loads ? 0 : 1], f.type)) return;
  if (!f.plain && inst_.operands.size() > 2) {
    f.has_stride = true;
    f.stride = l_.source(2, Type::U32);
  }
  emit_after(loads ? handlers().load_matrix : handlers().store_matrix, &f);
}

}  // namespace assay::shadow
