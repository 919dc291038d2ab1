// Every thread of a block reaches a barrier, or none does; and so for the lanes of a warp that an operation
// names.
//
// Each condition that decides whether a thread gets there must be the same for all of them. Most speak of
// nothing that differs between threads. For the others two threads are compared: the question is whether the
// condition can hold for one and fail for the other, in the same block (the same warp) and the same iteration
// of the loops around it. That a loop goes on must be agreed, too, or one thread would meet the barrier in an
// iteration that another never makes. That a loop before it has ended decides nothing: loops end.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "prove/obligation.h"

namespace assay::prove {

namespace {

constexpr double kSeconds = 3;
constexpr Bits kAllLanes = 0xffffffff;

class Uniformity {
 public:
  Uniformity(Setting& setting, const Barrier& barrier)
      : setting_(setting), terms_(setting.terms), barrier_(barrier) {}

  // Why it is not proved; none: it is.
  std::optional<std::string> problem() {
    if (barrier_.of_warp && terms_.value(barrier_.mask) != kAllLanes)
      return "the mask of the lanes is computed";
    if (barrier_.of_warp && !whole_warps()) return "the block may not be made of whole warps";
    Path conditions = barrier_.control;
    for (const Var loop : barrier_.loops) {
      const auto found = setting_.summary.loops.find(loop);
      if (found == setting_.summary.loops.end()) return "a loop around it is not understood";
      conditions.insert(conditions.end(), found->second.again.begin(), found->second.again.end());
    }
    for (const Term condition : conditions)
      if (!agreed(condition)) return "not all threads may get here";
    return std::nullopt;
  }

 private:
  bool whole_warps() const {
    Bits threads = 1;
    for (const Term extent : setting_.summary.threads) {
      const auto known = terms_.value(extent);
      if (!known) return false;
      threads *= *known;
    }
    return threads % 32 == 0;
  }

  bool differs(Var var) const {
    const VarKind kind = terms_.var(var).kind;
    if (kind == VarKind::Thread || kind == VarKind::Unknown) return true;
    return kind == VarKind::Count &&
           std::find(barrier_.loops.begin(), barrier_.loops.end(), var) == barrier_.loops.end();
  }

  // The same variable of the other thread.
  Term other(Var var, std::map<Var, Term>& renamed) {
    if (const auto found = renamed.find(var); found != renamed.end()) return found->second;
    Variable copy = terms_.var(var);
    const std::vector<Term> facts = std::move(copy.facts);
    copy.facts.clear();
    copy.name += "'";
    if (copy.kind == VarKind::Count) copy.kind = VarKind::Unknown;
    const Term term = terms_.variable(std::move(copy));
    renamed[var] = term;
    std::vector<Term> own;
    for (const Term fact : facts) own.push_back(rename(fact, renamed));
    terms_.var(terms_.mentions(term).front()).facts = std::move(own);
    return term;
  }

  Term rename(Term term, std::map<Var, Term>& renamed) {
    for (const Var var : std::vector<Var>(terms_.mentions(term)))
      if (differs(var)) other(var, renamed);
    return terms_.substitute(term, renamed);
  }

  Term linear_thread() const {
    const Var none = terms_.variables();
    Term index[3] = {kNoTerm, kNoTerm, kNoTerm};
    for (Var var = 0; var < none; ++var)
      for (unsigned axis = 0; axis < 3; ++axis)
        if (terms_.var(var).name == fmt::format("tid.{}", "xyz"[axis]))
          index[axis] = terms_.zext(terms_.of(var), 64);
    Term linear = terms_.constant(0, 64);
    for (int axis = 2; axis >= 0; --axis)
      linear = terms_.add(terms_.mul(linear, setting_.summary.threads[axis]),
                          index[axis] == kNoTerm ? terms_.constant(0, 64) : index[axis]);
    return linear;
  }

  bool agreed(Term condition) {
    const std::vector<Var> vars = terms_.mentions(condition);
    if (std::none_of(vars.begin(), vars.end(), [&](Var v) { return differs(v); })) return true;
    std::map<Var, Term> renamed;
    const Term theirs = rename(condition, renamed);
    try {
      Lowering lowering(terms_, setting_.summary, &setting_.claims, setting_.solver);
      lowering.set_deadline(kSeconds);
      if (barrier_.of_warp) {
        const Term mine = linear_thread(), warp = terms_.constant(5, 64);
        lowering.assume(terms_.compare(Op::Eq, terms_.bitwise(Op::LShr, mine, warp),
                                       terms_.bitwise(Op::LShr, rename(mine, renamed), warp)));
      }
      for (const Term earlier : barrier_.control)
        if (earlier != condition &&
            std::none_of(terms_.mentions(earlier).begin(), terms_.mentions(earlier).end(),
                         [&](Var v) { return differs(v); }))
          lowering.assume(earlier);
      lowering.assume(condition);
      return lowering.ask(lowering.formula(terms_.negation(theirs)), kSeconds).kind ==
             Answer::Kind::Unsatisfiable;
    } catch (const TooHard&) {
      return false;
    }
  }

  Setting& setting_;
  Terms& terms_;
  const Barrier& barrier_;
};

}  // namespace

Obligation prove_barriers(Setting& setting) {
  Obligation result;
  result.kernel = setting.kernel.name;
  result.name = "barrier";
  const double start = work_seconds();
  for (const Barrier& barrier : setting.summary.barriers) {
    ++result.total;
    auto problem = setting.out_of_time() ? std::optional<std::string>("time ran out")
                                         : Uniformity(setting, barrier).problem();
    if (problem)
      result.open.push_back(setting.place(*barrier.instruction, std::move(*problem)));
    else
      result.proved.push_back(setting.place(*barrier.instruction));
  }
  for (const std::string& gap : setting.summary.gaps) result.open.push_back({{}, gap, std::nullopt});
  result.status = result.open.empty() ? Status::Proved : Status::Unknown;
  result.seconds = work_seconds() - start;
  return result;
}

}  // namespace assay::prove
