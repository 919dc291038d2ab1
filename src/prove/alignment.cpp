// Every access is aligned as its width demands.
//
// A base is a multiple of what the contract (or the declaration of a variable) promises, and a dim with
// `multiple_of` is a multiple of that; so most addresses are visibly a sum of multiples, which takes no question.
// Where one is not, the question is whether the remainder can be other than 0.
#include <fmt/format.h>

#include <algorithm>

#include "prove/obligation.h"

namespace assay::prove {

namespace {

bool is_multiple(const Poly& poly, Int of) {
  return std::all_of(poly.begin(), poly.end(), [&](const auto& item) { return item.second % of == 0; });
}

Formula misaligned(Lowered& at, Int alignment) {
  return at_least_zero(plus(at.lowering.remainder(at.address, alignment), -1));
}

std::optional<Place> misaligned(Setting& setting, const Access& access) {
  const auto multiple = Bits{1} << setting.terms.trailing_zeros(access.address);
  if (multiple % access.alignment == 0) return std::nullopt;
  for (const Part& part : parts_of(setting.terms, access)) {
    Lowered at = lowered(setting, access, part, false);
    if (is_multiple(at.address, access.alignment)) continue;
    const Formula bad = misaligned(at, access.alignment);
    const Answer answer = at.lowering.ask(bad, setting.question_seconds());
    if (answer.kind == Answer::Kind::Unsatisfiable) continue;
    Place place;
    place.reason = fmt::format(
        "an access of {} bytes to {} {}", access.bytes, at.array->name,
        answer.kind == Answer::Kind::Satisfiable ? "may be misaligned" : "could not be decided in time");
    place.candidate = counterexample(setting, access, part,
                                     [&](Lowered& whole) { return misaligned(whole, access.alignment); });
    return place;
  }
  return std::nullopt;
}

}  // namespace

Obligation prove_alignment(Setting& setting) {
  return for_accesses(setting, "alignment", [&](const Access& access) {
    std::optional<Place> place = misaligned(setting, access);
    if (place || access.start == kNoTerm) return place;
    Access first_row = access;
    first_row.address = access.start;
    first_row.alignment = access.start_alignment;
    return misaligned(setting, first_row);
  });
}

}  // namespace assay::prove
