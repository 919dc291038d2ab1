// The Insts for memory instructions.
#include <algorithm>

#include "shadow/emitter.h"

namespace assay::shadow {

void Emitter::access(AccessForm& f, Handler handler) {
  f.cells = &impl_.cells;
  f.site = site();
  emit(handler, f, &f);
}

// The followed bytes of the registers of a vector, in memory order.
void Emitter::add_elements(AccessForm& f, const Operand& value, uint32_t element_bytes) {
  const size_t count = value.kind == OperandKind::Vector ? value.elements.size() : 1;
  for (size_t k = 0; k < count; ++k) {
    const Operand& one = value.kind == OperandKind::Vector ? value.elements[k] : value;
    if (one.kind != OperandKind::Register) continue;
    uint32_t begin = 0;
    for (uint32_t byte = 0; byte < element_bytes && f.count < std::size(f.elements); ++byte) {
      const PlaneOffset errors = errors_of(one, byte);
      if (errors == 0) continue;
      // Of unknown make, an element reaches from the one before it; its size is a power of two.
      uint32_t size = 1;
      while (size * 2 <= byte + 1 - begin && (byte + 1) % (size * 2) == 0) size *= 2;
      Number number = size == 8   ? Number::F64
                      : size == 4 ? Number::F32
                      : size == 2 ? Number::BF16
                                  : Number::S8;
      const Type type = inst_.type() == Type::F32 || inst_.type() == Type::F64
                            ? inst_.type()
                            : l_.function.registers[one.index].type;
      const std::optional<Number> known = type == Type::F32   ? Number::F32
                                          : type == Type::F64 ? Number::F64
                                                              : impl_.current->number(one.index);
      if (known && size_of(*known) <= element_bytes) {
        if ((byte + 1) % size_of(*known) != 0) continue;
        number = *known, size = size_of(*known);
      }
      f.elements[f.count++] = {errors, static_cast<uint8_t>(k * element_bytes + byte),
                               static_cast<uint8_t>(number), static_cast<uint8_t>(size)};
      begin = byte + 1;
    }
  }
}

void Emitter::load() {
  if (!writes_followed()) return;
  auto& f = *l_.extra<AccessForm>();
  add_elements(f, inst_.operands[0], ptx::size_of(inst_.type()));
  // Bytes beyond what memory gives are zeros or signs.
  auto& rest = *l_.extra<MoveForm>();
  for (uint32_t reg : plan_.writes)
    for (uint32_t byte = ptx::size_of(inst_.type()); byte < 16 && rest.count < kMaxMoves; ++byte)
      if (const PlaneOffset to = errors_of(reg, byte)) rest.moves[rest.count++] = {to, 0, 0, 0};
  if (rest.count != 0) l_.emit(handlers().move).extra = static_cast<Form*>(&rest);
  if (f.count != 0) access(f, handlers().load);
}

void Emitter::store() {
  auto& f = *l_.extra<AccessForm>();
  f.is_store = true;
  add_elements(f, inst_.operands[1], ptx::size_of(inst_.type()));
  access(f, handlers().store);
}

void Emitter::atomic() {
  const size_t first = inst_.opcode == Opcode::atom ? 1 : 0;
  auto& f = *l_.extra<AtomicForm>();
  f.kind = inst_.has(Mod::add)    ? AtomicKind::Add
           : inst_.has(Mod::exch) ? AtomicKind::Exchange
                                  : AtomicKind::Swap;
  f.part_bytes = ptx::size_of(inst_.type());
  if (f.part_bytes > 8) return forget();
  const Operand& value = inst_.operands.at(first + (f.kind == AtomicKind::Swap ? 2 : 1));
  if (f.kind == AtomicKind::Add) {
    if (!add_operands(f, value, first == 1 ? &inst_.operands[0] : nullptr)) return forget();
    f.flushes = inst_.type() == Type::F32 && !inst_.has(Mod::shared) && !inst_.has(Mod::shared_cta);
  } else {
    add_elements(f, value, f.part_bytes);
    if (f.count > 8) return forget();
    if (first == 1 && inst_.operands[0].kind == OperandKind::Register) {
      f.old_plane = l_.reg(inst_.operands[0].index);
      for (uint32_t k = 0; k < f.count; ++k)
        f.old_errors[k] = errors_of(inst_.operands[0], f.elements[k].last);
    }
    if (f.kind == AtomicKind::Swap) {
      f.compared.plane = l_.source(inst_.operands.at(first + 1), inst_.type());
      f.compared.lane_bytes =
          static_cast<uint16_t>(l_.lane_bytes(inst_.operands.at(first + 1), inst_.type()));
    }
    if (first == 1) clear_dest(f);
  }
  access(f, handlers().atomic);
}

// A value that an exchange returns without an account of its error has none.
void Emitter::clear_dest(const AtomicForm& f) {
  auto& rest = *l_.extra<MoveForm>();
  for (uint32_t reg : plan_.writes)
    for (uint32_t byte = 0; byte < 8; ++byte) {
      const PlaneOffset to = errors_of(reg, byte);
      if (to != 0 &&
          std::find(std::begin(f.old_errors), std::end(f.old_errors), to) == std::end(f.old_errors))
        rest.moves[rest.count++] = {to, 0, 0, 0};
    }
  if (rest.count != 0) l_.emit(handlers().move).extra = static_cast<Form*>(&rest);
}

bool Emitter::add_operands(AtomicForm& f, const Operand& value, const Operand* to) {
  const auto elements = [](const Operand& o) {
    return o.kind == OperandKind::Vector ? o.elements : std::vector<Operand>{o};
  };
  const auto packing = [&]() -> std::pair<Number, uint32_t> {
    switch (inst_.type()) {
      case Type::F64:
        return {Number::F64, 1};
      case Type::F32:
        return {Number::F32, 1};
      case Type::F16:
        return {Number::F16, 1};
      case Type::BF16:
        return {Number::BF16, 1};
      case Type::F16x2:
        return {Number::F16, 2};
      default:
        return {Number::BF16, 2};
    }
  }();
  const Operand* values = value.kind == OperandKind::Vector ? value.elements.data() : &value;
  const size_t count = value.kind == OperandKind::Vector ? value.elements.size() : 1;
  if (count * packing.second > 8) return false;
  for (size_t k = 0; k < count; ++k)
    for (uint32_t p = 0; p < packing.second; ++p) {
      const auto offset = static_cast<uint8_t>(p * size_of(packing.first));
      f.operand[f.parts] = source({&values[k], inst_.type(), offset, packing.first});
      if (to != nullptr && k < elements(*to).size())
        f.old_errors[f.parts] = errors_of(elements(*to)[k], offset + size_of(packing.first) - 1);
      ++f.parts;
    }
  return true;
}

}  // namespace assay::shadow
