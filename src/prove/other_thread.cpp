#include "prove/other_thread.h"

#include <vector>

namespace assay::prove {

Term OtherThread::operator()(Term term) {
  for (const Var var : std::vector<Var>(terms_.mentions(term))) {
    const VarKind kind = terms_.var(var).kind;
    if (kind != VarKind::Dim && kind != VarKind::Base && !shares_(var)) rename(var);
  }
  return terms_.substitute(term, renamed_);
}

Term OtherThread::rename(Var var) {
  if (const auto found = renamed_.find(var); found != renamed_.end()) return found->second;
  Variable copy = terms_.var(var);
  const std::vector<Term> facts = std::move(copy.facts);
  copy.facts.clear();
  copy.name += "'";
  if (copy.kind == VarKind::Count) copy.kind = VarKind::Unknown;
  const Term term = terms_.variable(std::move(copy));
  renamed_[var] = term;
  std::vector<Term> own;
  for (const Term fact : facts) own.push_back((*this)(fact));
  terms_.var(terms_.mentions(term).front()).facts = std::move(own);
  return term;
}

}  // namespace assay::prove
