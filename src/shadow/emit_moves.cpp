// The Insts for instructions that move, select, truncate or drop bits.
#include <algorithm>

#include "shadow/emitter.h"

namespace assay::shadow {

// Every followed byte that the instruction writes, with the edge (or the two) that leads to it.
void Emitter::fill_moves(MoveForm& f) {
  for (uint32_t reg : plan_.writes)
    for (uint32_t byte = 0; byte < 16; ++byte) {
      const PlaneOffset to = errors_of(reg, byte);
      if (to == 0 || f.count == kMaxMoves) continue;
      MoveForm::One one{to, 0, 0, 0};
      bool first = true, cuts = false;
      for (const Edge& e : plan_.edges) {
        if (e.to.reg != reg || e.to.byte != byte) continue;
        cuts |= (e.act & kCut) != 0;
        (first ? one.from : one.other) = errors_of(e.from.reg, e.from.byte);
        one.act |= e.act;
        first = false;
      }
      if (!cuts) f.moves[f.count++] = one;
    }
}

// A register that moves its own bytes about would need a copy.
bool Emitter::moves_within() const {
  return std::any_of(plan_.edges.begin(), plan_.edges.end(),
                     [](const Edge& e) { return e.to.reg == e.from.reg && e.to.byte != e.from.byte; });
}

void Emitter::move(Handler handler) {
  if (!writes_followed()) return;
  if (moves_within()) return forget();
  auto& f = *l_.extra<MoveForm>();
  fill_moves(f);
  for (const Edge& e : plan_.edges)
    if ((e.act & kAbsolute) != 0 && e.from.byte == 3) f.value = l_.reg(e.from.reg);
  f.site = site();
  l_.emit(handler).extra = static_cast<Form*>(&f);
}

void Emitter::select() {
  if (!writes_followed()) return;
  const Operand& p = inst_.operands[3];
  if (p.kind != OperandKind::Register) return forget();
  auto& f = *l_.extra<MoveForm>();
  f.site = site();
  f.predicate = l_.reg(p.index);
  f.predicate_flip = p.negated ? vgpu::kAllLanesMask : 0;
  for (uint32_t reg : plan_.writes)
    for (uint32_t byte = 0; byte < 16 && f.count < kMaxMoves; ++byte)
      if (const PlaneOffset to = errors_of(reg, byte))
        f.moves[f.count++] = {to, errors_of(inst_.operands[1], byte), errors_of(inst_.operands[2], byte), 0};
  l_.emit(handlers().select).extra = static_cast<Form*>(&f);
}

void Emitter::bits() {
  if (plan_.edges.empty() || !writes_followed()) return;
  auto& f = *l_.extra<MoveForm>();
  const Edge& e = plan_.edges[0];
  f.site = site();
  f.moves[0] = {errors_of(e.to.reg, e.to.byte), errors_of(e.from.reg, e.from.byte), 0, 0};
  f.count = 1;
  f.value = l_.reg(e.from.reg), f.result = l_.reg(e.to.reg);
  f.wide = plan_.wide;
  emit(handlers().bits, f);
}

// The halves in order: the lower one's place is no float's.
void Emitter::cut() {
  if (!writes_followed()) return;
  if (!std::all_of(plan_.edges.begin(), plan_.edges.end(),
                   [](const Edge& e) { return (e.act & kCut) != 0; })) {
    if (moves_within()) return forget();
    move(handlers().move);
  }
  for (const Edge& e : plan_.edges) {
    const PlaneOffset to = errors_of(e.to.reg, e.to.byte);
    if ((e.act & kCut) == 0 || to == 0) continue;
    auto& f = *l_.extra<MoveForm>();
    f.site = site();
    f.value = l_.reg(e.from.reg);
    f.moves[f.count++] = {to, errors_of(e.from.reg, e.from.byte), 0, 0};
    l_.emit(handlers().cut).extra = static_cast<Form*>(&f);
  }
}

void Emitter::forget() {
  if (!writes_followed() && !plan_.unfollowed) return;
  auto& f = *l_.extra<MoveForm>();
  f.site = site();
  f.forgets = plan_.unfollowed;
  for (uint32_t reg : plan_.writes)
    for (uint32_t byte = 0; byte < 16 && f.count < kMaxMoves / 2; ++byte)
      if (const PlaneOffset to = errors_of(reg, byte)) f.moves[f.count++] = {to, 0, 0, 0};
  add_lost(f, 1);
  l_.emit(handlers().forget).extra = static_cast<Form*>(&f);
}

// What goes to another function by .param is a value there, no more.
void Emitter::lose_arguments() {
  auto& f = *l_.extra<MoveForm>();
  add_lost(f, 1);
  if (f.count == 0) return;
  f.site = site();
  f.site->operation = l_.function.is_entry ? "call" : "call or return";
  l_.emit(handlers().forget).extra = static_cast<Form*>(&f);
}

void Emitter::add_lost(MoveForm& f, size_t first) {
  const auto add = [&](const Operand& o) {
    for (uint32_t byte = 0; byte < 16 && f.count < kMaxMoves; ++byte)
      if (const PlaneOffset from = errors_of(o, byte)) f.moves[f.count++] = {0, from, 0, 0};
  };
  for (size_t o = first; o < inst_.operands.size(); ++o) {
    add(inst_.operands[o]);
    if (inst_.operands[o].kind == OperandKind::Vector)
      for (const Operand& e : inst_.operands[o].elements) add(e);
  }
}

}  // namespace assay::shadow
