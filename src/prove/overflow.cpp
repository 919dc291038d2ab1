// No narrow index wraps on its way into an address.
//
// Lowering notes each value that it could not show to stay within its type, of the address and of the conditions
// on the way to it: a value that a guard looks at first is noted there, and may be part of the address, too. For
// each one that bears on the address the question is whether it can wrap where the access is reached, everything
// known taken together. Wrapping that never reaches an address (a hash, a comparison trick) is no defect; nor is it where
// it only decides which of two values an address gets: a condition is no index, whether the compiler makes a branch of
// it or a choice. (-4 <u i, with i from -1 down, is how nvcc asks for the length of a remainder.)
#include <algorithm>
#include <set>

#include "prove/obligation.h"
#include "trial/giant.h"
#include "trial/plan.h"
#include "trial/shapes.h"

namespace assay::prove {

namespace {

constexpr unsigned kPointerBits = 64;
constexpr int64_t kControlDim = 40;  // the most of a dim in a shape where nothing wraps
// The size of a dim at which numbers of 16 bits have wrapped, and more than one block is beyond that. Chosen.
constexpr int64_t kAfter16Bits = 70000;
// Seconds of the solver for one shape, and for all that are known to tell: most take a few hundredths. Chosen.
constexpr double kShapeSeconds = 0.5, kTellingSeconds = 3;

// When a subterm bears on a term: a choice uses one of its sides only.
class Influence {
 public:
  Influence(Terms& terms, Term part) : terms_(terms), part_(part) {}

  Term on(Term whole) {
    if (whole == part_) return terms_.truth(true);
    if (const auto found = known_.find(whole); found != known_.end()) return found->second;
    const Node node = terms_[whole];
    Term result = terms_.truth(false);
    if (node.op == Op::Ite) {
      result = terms_.ite(node.a, on(node.b), on(node.c));
    } else {
      for (const Term child : {node.a, node.b, node.c})
        if (child != kNoTerm) result = terms_.either(result, on(child));
    }
    return known_[whole] = result;
  }

 private:
  Terms& terms_;
  Term part_;
  std::map<Term, Term> known_;
};

// Which values of a term are read as signed numbers, and which as unsigned: what is extended, divided or compared, as
// Lowering does it. A guard may read a value the other way than the address does (i < n, unsigned, where i may be
// negative), and wrap where the address does not. Where it is not clear, both count.
using Views = std::set<std::pair<Term, bool>>;
Views views_in(const Terms& terms, Term whole) {
  Views views;
  std::set<Term> seen;
  std::vector<Term> open = {whole};
  while (!open.empty()) {
    const Term at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    const Node& node = terms[at];
    const bool reads_signed = node.op == Op::SExt || node.op == Op::SDiv || node.op == Op::SRem ||
                              node.op == Op::AShr || node.op == Op::Slt || node.op == Op::Sle;
    const bool reads_unsigned = node.op == Op::ZExt || node.op == Op::UDiv || node.op == Op::URem ||
                                node.op == Op::LShr || node.op == Op::Ult || node.op == Op::Ule;
    const bool passes_on =
        node.op == Op::Add || node.op == Op::Mul || node.op == Op::Trunc;  // modulo 2^width
    for (const Term child : {node.op == Op::Ite ? kNoTerm : node.a, node.b, node.c}) {
      if (child == kNoTerm) continue;
      open.push_back(child);
      if (passes_on) continue;
      if (!reads_unsigned) views.emplace(child, true);
      if (!reads_signed) views.emplace(child, false);
    }
  }
  return views;
}

// Which of the values that may wrap an address is built on.
class Indices {
 public:
  Indices(Setting& setting, const Part& part)
      : setting_(setting), part_(part), views_(views_in(setting.terms, part.address)) {
    // An address of fewer bits than a pointer is itself read, as an unsigned number.
    if (is_narrow()) views_.emplace(part.address, false);
  }

  void read_address(Lowering& lowering) const {
    if (is_narrow()) lowering.unsigned_value(part_.address);
  }

  // A constant is what it is, read as signed or as unsigned.
  bool count(const Wrap& wrap) const {
    return views_.contains({wrap.term, wrap.is_signed}) && !setting_.terms.is_constant(wrap.term);
  }

  // It wraps where it bears on the address.
  Formula wraps(Lowering& lowering, const Wrap& wrap) const {
    if (!count(wrap)) return any_of({});
    const Term bears = Influence(setting_.terms, wrap.term).on(part_.address);
    return all_of({any_of({at_least_zero(plus(atom_poly(wrap.times), -1)),
                           at_least_zero(plus(atom_poly(wrap.times, -1), -1))}),
                   lowering.formula(bears)});
  }

  // One of them wraps, in the first iteration in which it does.
  //
  // Of a counter that wraps nothing bounds the iterations: it begins again, and its loop goes on. A model would name an
  // iteration that no thread gets to, at a shape where nothing is wrong. What wraps at all wraps once for the first time:
  // one iteration earlier it did not, and the loop went on then, and the iteration before, by what the counter truly was.
  // For counterexamples only.
  Formula any_wraps_first(Lowered& whole, const std::vector<Var>& loops) const {
    Lowering& lowering = whole.lowering;
    read_address(lowering);
    Terms& terms = setting_.terms;
    const std::vector<Wrap> all = lowering.wraps();
    for (const Var count : loops) {
      const Poly k = lowering.count(count);
      const Formula first = at_least_zero(scale(k, -1));            // k <= 0
      const Formula second = at_least_zero(plus(scale(k, -1), 1));  // k <= 1
      const Term one = lowering.earlier(count, 1), two = lowering.earlier(count, 2);
      for (const Term condition : setting_.summary.loops.at(count).repeats)
        lowering.assume(any_of({second, lowering.formula(terms.substitute(condition, {{count, two}}))}));
      for (const Wrap& wrap : all) {
        const auto& vars = terms.mentions(wrap.term);
        if (std::find(vars.begin(), vars.end(), count) == vars.end()) continue;
        const size_t known = lowering.wraps().size();
        const Term before = terms.substitute(wrap.term, {{count, one}});
        wrap.is_signed ? lowering.signed_value(before) : lowering.unsigned_value(before);
        for (size_t i = known; i < lowering.wraps().size(); ++i)
          lowering.assume(any_of({first, equal_to_zero(atom_poly(lowering.wraps()[i].times))}));
      }
    }
    std::vector<Formula> any;
    for (const Wrap& wrap : all) any.push_back(wraps(lowering, wrap));
    return any_of(std::move(any));
  }

 private:
  bool is_narrow() const { return setting_.terms.width(part_.address) < kPointerBits; }

  Setting& setting_;
  const Part& part_;
  Views views_;
};

// Whether an index of this address, lowered at one shape, may wrap there.
Answer wraps_at(Setting& setting, Lowered& at, const Access& access, const Indices& indices) {
  const Formula any = indices.any_wraps_first(at, access.loops);
  return at.lowering.ask_nonlinear(any, std::min(kShapeSeconds, setting.question_seconds()));
}

// The shape with every dim small, if that keeps indices from wrapping.
std::optional<contract::Shape> control_of(Setting& setting, const Access& access, const Part& part,
                                          const Indices& indices, contract::Shape shape) {
  for (const contract::Dim& dim : setting.dims.contract().dims) {
    int64_t& value = shape[dim.name];
    value = std::max(dim.lowest(), std::min(value, kControlDim) / dim.multiple_of * dim.multiple_of);
  }
  if (!setting.dims.contract().check_shape(shape)) return std::nullopt;
  Lowered at = lowered(setting, access, part, true, &shape);
  if (wraps_at(setting, at, access, indices).kind != Answer::Kind::Unsatisfiable) return std::nullopt;
  return shape;
}

// Shapes at which narrow indices usually wrap, if they do: one dim beyond 16 bits and the others small, which is soon run;
// then those at which a sample of the blocks is run.
std::vector<contract::Shape> telling_shapes(const contract::Contract& contract) {
  std::vector<contract::Shape> shapes;
  for (const contract::Dim& dim : contract.dims) {
    if (dim.highest() <= kAfter16Bits) continue;
    contract::Shape shape = trial::uniform_shape(contract, 1);
    shape[dim.name] = trial::snap(dim, kAfter16Bits);
    if (contract.check_shape(shape)) shapes.push_back(std::move(shape));
  }
  const trial::PlanOptions limits;
  for (contract::Shape& shape : trial::giant_shapes(contract, kAfter16Bits, limits.max_sampled_bytes))
    shapes.push_back(std::move(shape));
  return shapes;
}

// A shape at which an index may wrap. Those that are known to tell first: that dims are unknown makes products of them and of
// iterations, of which no model may be found in time.
std::optional<Candidate> candidate_of(Setting& setting, const Access& access, const Part& part,
                                      const Indices& indices) {
  if (setting.counterexamples == 0) return std::nullopt;
  std::optional<Candidate> candidate;
  const double start = work_seconds();
  for (const contract::Shape& shape : telling_shapes(setting.dims.contract())) {
    if (setting.out_of_time() || work_seconds() - start > kTellingSeconds) break;
    Lowered at = lowered(setting, access, part, true, &shape);
    const Answer answer = wraps_at(setting, at, access, indices);
    if (answer.kind != Answer::Kind::Satisfiable) continue;
    --setting.counterexamples;
    candidate = candidate_from(setting, at.lowering.values(answer));
    break;
  }
  if (!candidate)
    candidate = counterexample(setting, access, part,
                               [&](Lowered& whole) { return indices.any_wraps_first(whole, access.loops); });
  if (candidate) candidate->control = control_of(setting, access, part, indices, candidate->shape);
  return candidate;
}

std::optional<Place> wrapped(Setting& setting, const Access& access) {
  for (const Part& part : parts_of(setting.terms, access)) {
    Lowered at = lowered(setting, access, part, false);
    const Indices indices(setting, part);
    indices.read_address(at.lowering);
    const std::vector<Wrap> wraps = at.lowering.wraps();
    for (const Wrap& wrap : wraps) {
      if (!indices.count(wrap)) continue;
      const Answer answer = at.lowering.ask(indices.wraps(at.lowering, wrap), setting.question_seconds());
      if (answer.kind == Answer::Kind::Unsatisfiable) continue;
      Place place;
      place.reason = answer.kind == Answer::Kind::Satisfiable
                         ? "an index on the way into this address may overflow"
                         : "whether an index overflows could not be decided in time";
      try {
        place.candidate = candidate_of(setting, access, part, indices);
      } catch (const TooHard&) {
      }
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace

Obligation prove_overflow(Setting& setting) {
  return for_accesses(setting, "overflow", [&](const Access& access) { return wrapped(setting, access); });
}

}  // namespace assay::prove
