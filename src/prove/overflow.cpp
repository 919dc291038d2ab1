// No narrow index wraps on its way into an address.
//
// Lowering notes each value that it could not show to stay within its type while an address was translated. For each of
// these the question is whether it can wrap where the access is reached, everything known taken together. Wrapping
// that never reaches an address (a hash, a comparison trick) is nobody's business.
#include "prove/obligation.h"

namespace assay::prove {

namespace {

std::optional<Place> check(Setting& setting, const Access& access) {
  for (const Part& part : parts_of(setting.terms, access)) {
    Lowered at = lowered(setting, access, part, false);
    const auto wraps = at.lowering.wraps();
    for (size_t i = at.wraps; i < wraps.size(); ++i) {
      const auto wrapped = [&](Atom times) {
        return any_of({at_least_zero(plus(atom_poly(times), -1)), at_least_zero(plus(atom_poly(times, -1), -1))});
      };
      const Answer answer = at.lowering.ask(wrapped(wraps[i].times), setting.access_seconds);
      if (answer.kind == Answer::Kind::Unsatisfiable) continue;
      Place place;
      place.reason = answer.kind == Answer::Kind::Satisfiable ? "an index on the way into this address may overflow"
                                                              : "whether an index overflows could not be decided in time";
      place.candidate = counterexample(setting, access, part, [&](Lowered& whole) {
        std::vector<Formula> any;
        for (size_t w = whole.wraps; w < whole.lowering.wraps().size(); ++w) any.push_back(wrapped(whole.lowering.wraps()[w].times));
        return any_of(std::move(any));
      });
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace

Obligation prove_overflow(Setting& setting) {
  return for_accesses(setting, "overflow", [&](const Access& access) { return check(setting, access); });
}

}  // namespace assay::prove
