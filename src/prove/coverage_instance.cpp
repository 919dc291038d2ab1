#include "prove/coverage_instance.h"

namespace assay::prove {

Term Instance::operator()(Term term) {
  std::map<Var, Term> by;
  for (const Var var : std::vector<Var>(terms_.mentions(term))) by[var] = terms_.of(of(var));
  return terms_.substitute(term, by);
}

Path Instance::operator()(const Path& path) {
  Path copy;
  for (const Term term : path) copy.push_back((*this)(term));
  return copy;
}

Var Instance::of(Var var) {
  const VarKind kind = terms_.var(var).kind;
  if (kind == VarKind::Dim || kind == VarKind::Base) return var;
  if (outer_ && var < from_) return outer_->of(var);
  if (const auto found = copies_.find(var); found != copies_.end())
    return terms_.mentions(found->second).front();
  Variable variable = terms_.var(var);
  const std::vector<Term> facts = std::move(variable.facts);
  variable.facts.clear();
  variable.name += "'";
  const Term copy = terms_.variable(std::move(variable));
  const Var made = terms_.mentions(copy).front();
  copies_[var] = copy;
  for (const Term fact : facts) {
    const Term own = (*this)(fact);
    terms_.var(made).facts.push_back(own);
  }
  const auto loop = world_.loops.find(var);
  if (kind != VarKind::Count || loop == world_.loops.end()) return made;
  counts_.push_back(var);
  std::vector<Claim> claims;
  for (Claim claim : claims_.of(var)) {
    claim.induction = {(*this)(claim.induction.value), (*this)(claim.induction.start),
                       (*this)(claim.induction.step)};
    claims.push_back(claim);
  }
  claims_.adopt(made, std::move(claims));
  Loop own;
  own.count = made;
  own.repeats = (*this)(loop->second.repeats);
  world_.loops[made] = std::move(own);
  return made;
}

}  // namespace assay::prove
