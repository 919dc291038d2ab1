// Every access lies within the array that its address begins in.
//
// For an address base + offset that touches `bytes` bytes of an array of `size` bytes, the question is
// whether offset < 0 or offset + bytes > size can hold where the access is reached. The offset is a
// polynomial congruent to the machine's modulo 2^64; if it lies within [0, size), so does the machine's,
// since base + size is far below 2^64. An access may rely on the accesses before it being in bounds: the
// first that is not would be found.
//
// The gaps between the elements of a strided tensor belong to the caller. Reading them is not out of bounds (only the
// value is then unknown), but writing them is: a write must lie within elements.
#include <fmt/format.h>

#include <algorithm>

#include "prove/obligation.h"
#include "prove/strides.h"
#include "prove/tensor_memory.h"

namespace assay::prove {

namespace {

constexpr double kStrideSeconds = 1;  // for each bound of a row or column

Formula outside(const Access& access, Lowered& at, bool grouped) {
  const Poly offset = grouped ? at.lowering.delinearised(at.offset) : at.offset;
  const Poly size = at.lowering.poly(at.array->bytes);
  return any_of({at_least_zero(plus(scale(offset, -1), -1)),
                 at_least_zero(plus(add(offset, size, -1), Int{access.bytes} - 1))});
}

// Row by row and column by column: much quicker, where the offset is built that way.
bool inside_by_strides(const Access& access, Lowered& at, const Poly& offset) {
  const auto needed = bounds_by_strides(at.lowering, offset, at.lowering.poly(at.array->bytes), access.bytes);
  if (!needed) return false;
  return std::all_of(needed->begin(), needed->end(),
                     [&](const Formula& formula) { return at.lowering.proves(formula, kStrideSeconds); });
}

// By how often a loop with a stride of its own has gone round.
bool inside_by_quotient(const Access& access, Lowered& at) {
  const Poly room = plus(add(at.lowering.poly(at.array->bytes), at.offset, -1), -Int{access.bytes});
  return at.lowering.enough_by_quotient(room) &&
         at.lowering.proves(all_of({at_least_zero(at.offset), at_least_zero(room)}), kStrideSeconds);
}

bool has_gaps(const Lowered& at) {
  return at.array->elements && at.array->elements->gaps;
}

// Within elements of a tensor with gaps, and so within the tensor.
bool inside_elements(const Access& access, Lowered& at, const Poly& offset) {
  const TensorMemory& memory = *at.array->elements;
  const auto by = [&](const std::vector<TensorAxis>& axes) {
    const auto needed = within_elements(at.lowering, memory, axes, offset, access.bytes);
    return needed && std::all_of(needed->begin(), needed->end(), [&](const Formula& formula) {
             return at.lowering.proves(formula, kStrideSeconds);
           });
  };
  return by(memory.axes) || (memory.joined.size() < memory.axes.size() && by(memory.joined));
}

// A write that the strides do not show to lie within elements: for a counterexample.
Formula beside_elements(const Access& access, Lowered& at) {
  const TensorMemory& memory = *at.array->elements;
  const auto needed = within_elements(at.lowering, memory, memory.joined, at.offset, access.bytes);
  return needed ? negated(all_of(*needed)) : outside(access, at, false);
}

std::optional<Place> beside(Setting& setting, const Access& access, const Part& part, const Lowered& at) {
  Place place;
  place.reason =
      fmt::format("a write of {} bytes of {} may lie between its elements", access.bytes, at.array->name);
  place.candidate =
      counterexample(setting, access, part, [&](Lowered& whole) { return beside_elements(access, whole); });
  return place;
}

std::optional<Place> outside(Setting& setting, const Access& access) {
  for (const Part& part : parts_of(setting.terms, access)) {
    Lowered at = lowered(setting, access, part, false);
    if (at.array->bytes == kNoTerm) throw TooHard{fmt::format("the size of {} is unknown", at.array->name)};
    const Poly simple = at.lowering.without_quotients(at.offset);
    if (has_gaps(at)) {
      if (inside_elements(access, at, simple) ||
          (simple != at.offset && inside_elements(access, at, at.offset)))
        continue;
      if (access.effect != Effect::Read) return beside(setting, access, part, at);
    }
    if (inside_by_strides(access, at, simple) ||
        (simple != at.offset && inside_by_strides(access, at, at.offset)))
      continue;
    if (inside_by_quotient(access, at)) continue;
    const Formula bad = outside(access, at, true);
    const Answer answer = at.lowering.ask(bad, setting.question_seconds());
    if (answer.kind == Answer::Kind::Unsatisfiable) continue;
    Place place;
    place.reason = fmt::format(
        "{} of {} bytes of {} {}",
        access.effect == Effect::Read    ? "a read"
        : access.effect == Effect::Write ? "a write"
                                         : "an atomic operation",
        access.bytes, at.array->name,
        answer.kind == Answer::Kind::Satisfiable ? "may be out of bounds" : "could not be decided in time");
    place.candidate =
        counterexample(setting, access, part, [&](Lowered& whole) { return outside(access, whole, false); });
    return place;
  }
  return std::nullopt;
}

}  // namespace

Obligation prove_bounds(Setting& setting) {
  return for_accesses(setting, "bounds", [&](const Access& access) { return outside(setting, access); });
}

}  // namespace assay::prove
