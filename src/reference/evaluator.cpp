// Expressions on batches: index arithmetic, loads, conditions.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "contract/formula.h"
#include "reference/evaluation.h"

namespace assay::reference {
namespace {}  // namespace

Evaluator::Evaluator(Evaluation& evaluation) : evaluation_(evaluation) {
  budget_.arena = plain_.arena = &arena_;
  budget_.precision = plain_.precision = &evaluation.precision;
  budget_.simulated = plain_.simulated = evaluation.simulated;
  budget_.budget = evaluation.simulated == nullptr;
  plain_.budget = false;
  const std::size_t count = evaluation.compiled.definitions.size();
  caches_.resize(count);
  shifts_.resize(count);
  suppressed_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    caches_[i].resize(evaluation.compiled.definitions[i].nodes.size());
    shifts_[i].assign(evaluation.compiled.definitions[i].nodes.size(), Shift::None);
    suppressed_[i].assign(evaluation.compiled.definitions[i].nodes.size(), 0);
  }
}

// ---- batches ------------------------------------------------------------------

Batch Evaluator::batch_of(int definition_id, const int64_t* elements, int n) {
  const Definition& made = definition(definition_id);
  const ShapedDefinition& planned = shaped(definition_id);
  Batch batch;
  batch.definition = definition_id;
  batch.n = n;
  batch.id = next_batch_++;
  const std::size_t rank = made.coordinates.size();
  int64_t at[64];
  int64_t* values[64];
  for (std::size_t c = 0; c < rank; ++c) values[c] = arena_.get<int64_t>(n);
  for (int l = 0; l < n; ++l) {
    // Neighbours differ in the last coordinate; dividing is for the others.
    const bool next = l > 0 && rank > 0 && elements[l] == elements[l - 1] + 1 &&
                      at[rank - 1] + 1 < planned.extents[rank - 1];
    if (next) {
      ++at[rank - 1];
    } else {
      int64_t rest = elements[l];
      for (std::size_t c = rank; c-- > 0;) {
        at[c] = c == 0 ? rest : rest % planned.extents[c];
        rest /= std::max<int64_t>(planned.extents[c], 1);
      }
    }
    for (std::size_t c = 0; c < rank; ++c) values[c][l] = at[c] + planned.origin[c];
  }
  for (std::size_t c = 0; c < rank; ++c) {
    const int variable = made.coordinates[c].variable;
    if (variable < 0) continue;
    bool same = true;
    for (int l = 1; l < n; ++l) same &= values[c][l] == values[c][0];
    if (same)
      batch.uniform[variable] = values[c][0];
    else
      batch.index[variable] = values[c];
  }
  return batch;
}

Batch Evaluator::select(const Batch& batch, const int* lanes, int n) {
  Batch result = batch;
  result.n = n;
  result.id = next_batch_++;
  const std::size_t count = definition(batch.definition).variables.size();
  for (std::size_t v = 0; v < count; ++v) {
    if (!batch.index[v]) continue;
    result.index[v] = arena_.get<int64_t>(n);
    for (int l = 0; l < n; ++l) result.index[v][l] = batch.index[v][lanes[l]];
  }
  result.terms = nullptr;
  return result;
}

Batch Evaluator::select_with_terms(const Batch& batch, const int* lanes, int n) {
  Batch result = select(batch, lanes, n);
  if (!batch.terms) return result;
  result.terms = arena_.get<double>(n);
  std::fill_n(result.terms, n, 1.0);
  return result;
}

void Evaluator::compute(int definition_id, const int64_t* elements, int n, const Elements& out) {
  const Arena::Mark mark = arena_.mark();
  const Definition& made = definition(definition_id);
  Batch batch = batch_of(definition_id, elements, n);
  batch.terms = out.terms;
  std::fill_n(out.terms, n, 1.0);
  if (made.is_choice) {
    write_choice(definition_id, elements, n, out);
  } else if (made.reduce != Reduce::None) {
    reduce(batch, elements, out);
  } else if (made.is_scatter()) {
    assign_scatter(batch, elements, out);
  } else {
    write(eval(batch, made.body), n, out);
  }
  arena_.release(mark);
}

void Evaluator::write(const Lanes& value, int n, const Elements& out) const {
  for (int l = 0; l < n; ++l) {
    out.v[l] = value.v ? value.v[l] : std::bit_cast<double>(value.i[l]);
    out.b[l] = value.b ? value.b[l] : 0;
    out.s[l] = value.s ? value.s[l] : 0;
    out.f[l] = value.f ? value.f[l] : 0;
    out.magnitude[l] = value.v ? std::abs(value.v[l]) : std::abs(static_cast<double>(value.i[l]));
  }
}

// What the kernel chose. It is not asked for where that was not given (Reference::Impl::is_known).
void Evaluator::write_choice(int definition_id, const int64_t* elements, int n, const Elements& out) {
  const Tensor* chosen = evaluation_.chosen[static_cast<std::size_t>(definition_id)];
  const bool is_real = definition(definition_id).type() == Type::Float;
  Lanes value = is_real ? plain_.real(0, n) : plain_.integer(0, n);
  for (int l = 0; l < n && chosen; ++l) {
    if (is_real)
      value.v[l] = chosen->load(elements[l]);
    else
      value.i[l] = chosen->load_int(elements[l]);
  }
  write(value, n, out);
}

// ---- expressions ---------------------------------------------------------------

Lanes Evaluator::eval(Batch& batch, int node_id) {
  Lanes r = eval_node(batch, node_id);
  if (const Defect* defect = evaluation_.simulated; defect && defect->only_value == node_id)
    return with_defect(batch, node_id, r);
  return r;
}

// The one value that a simulated defect rounds.
Lanes Evaluator::with_defect(const Batch& batch, int node_id, const Lanes& r) {
  const Defect* defect = evaluation_.simulated;
  if (!defect || defect->only_value != node_id || defect->value_of != batch.definition || !r.v) return r;
  Lanes rounds = r;
  rounds.v = arena_.get<double>(batch.n);
  for (int l = 0; l < batch.n; ++l) rounds.v[l] = rounded(*defect->intermediates, r.v[l]);
  return rounds;
}

namespace {

// Whether it may be beyond the precision without a flag: the value of a function.
bool may_exceed(const Node& node) {
  return node.exponential || node.op == Op::Expm1;
}

}  // namespace

Lanes Evaluator::eval_node(Batch& batch, int node_id) {
  const Node& node = definition(batch.definition).nodes[static_cast<std::size_t>(node_id)];
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const int n = batch.n;
  switch (node.op) {
    case Op::Integer:
      return math.integer(node.integer, n);
    case Op::Real:
      return math.real(node.real, n);
    case Op::Dim:
      return math.integer(evaluation_.shaped.dims[static_cast<std::size_t>(node.ref)], n);
    case Op::Scalar:
      return scalar(batch, node);
    case Op::Index: {
      if (!batch.index[node.ref]) return math.integer(batch.uniform[node.ref], n);
      Lanes r;
      r.i = batch.index[node.ref];
      return r;
    }
    case Op::Load:
      return load(batch, node_id, node);
    case Op::If:
      return conditional(batch, node);
    case Op::And:
    case Op::Or:
      return logical(batch, node);
    case Op::Exp:
    case Op::Exp2:
      return exponential(batch, node);
    default:
      break;
  }
  if ((node.op == Op::Add || node.op == Op::Sub) && node.integer != 0)
    return node.integer == contract::kAnyOrder ? in_any_order(batch, node_id, node) : logarithm(batch, node);
  const Lanes a = eval(batch, node.a);
  if (node.b >= 0) return binary(batch, node, a, eval(batch, node.b));
  const Lanes r = math.unary(node, a, n);
  report_trouble(math, node);
  return r;
}

Lanes Evaluator::binary(const Batch& batch, const Node& node, const Lanes& a, const Lanes& b) {
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const std::vector<Node>& nodes = definition(batch.definition).nodes;
  const Node &left = nodes[static_cast<std::size_t>(node.a)],
             &right = nodes[static_cast<std::size_t>(node.b)];
  Lanes r = math.binary(node, a, b, batch.n);
  if (node.op == Op::Div && left.exponential) math.widen_quotient(r, batch.n);
  const bool is_sum_or_product = node.op == Op::Add || node.op == Op::Sub || node.op == Op::Mul;
  if (is_sum_or_product || node.op == Op::Div) {
    if (may_exceed(left)) math.flag_infinite_operand(r, a, batch.n);
    if (may_exceed(right) && is_sum_or_product) math.flag_infinite_operand(r, b, batch.n);
  }
  report_trouble(math, node);
  return r;
}

void Evaluator::report_trouble(const Arithmetic& math, const Node& node) {
  if (!math.trouble) return;
  evaluation_.fail(node.place, math.trouble);
  math.trouble = nullptr;
}

// What an exp is of, as a sum: the sizes of its terms.
struct Evaluator::Exponent {
  double* size = nullptr;
  double* squares = nullptr;
  bool shifts_one_element = false;
};

Evaluator::Exponent Evaluator::new_exponent(int n) {
  Exponent made{arena_.get<double>(n), arena_.get<double>(n)};
  std::fill_n(made.size, n, 0.0);
  std::fill_n(made.squares, n, 0.0);
  return made;
}

Lanes Evaluator::exponent(Batch& batch, int node_id, Exponent& found) {
  const Node& node = definition(batch.definition).nodes[static_cast<std::size_t>(node_id)];
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const bool sum = node.op == Op::Add || node.op == Op::Sub;
  if (node.type == Type::Float && (sum || node.op == Op::Neg)) {
    const Lanes a = exponent(batch, node.a, found);
    if (!sum) return with_defect(batch, node_id, math.unary(node, a, batch.n));
    return with_defect(batch, node_id, math.binary(node, a, exponent(batch, node.b, found), batch.n));
  }
  found.shifts_one_element |= node.op == Op::Shift && node.integer != 0;
  const Lanes leaf = eval(batch, node_id);
  if (leaf.v)
    for (int l = 0; l < batch.n; ++l) {
      found.size[l] += std::abs(leaf.v[l]);
      found.squares[l] += leaf.v[l] * leaf.v[l];
    }
  return leaf;
}

// exp of a sum or difference remembers of what, since exp(a + b) may be computed as exp(a) exp(b). One that
// is shifted by its own argument is exactly 1.
Lanes Evaluator::exponential(Batch& batch, const Node& node) {
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const std::vector<Node>& nodes = definition(batch.definition).nodes;
  const Node* argument = &nodes[static_cast<std::size_t>(node.a)];
  while (argument->op == Op::Neg) argument = &nodes[static_cast<std::size_t>(argument->a)];
  const bool sum = argument->op == Op::Add || argument->op == Op::Sub;
  if (!sum || !math.budget || math.simulated) return math.unary(node, eval(batch, node.a), batch.n);
  Exponent found = new_exponent(batch.n);
  const Lanes x = exponent(batch, node.a, found);
  Lanes r = math.unary(node, x, batch.n);
  if (!found.shifts_one_element) {
    math.widen_exponential(r, found.size, found.squares, batch.n);
    return r;
  }
  for (int l = 0; l < batch.n; ++l)
    if (x.v[l] == 0 && r.b) r.b[l] = r.s[l] = 0;
  return r;
}

// A few terms that kernels add in any order: no partial sum is larger than all sizes together.
Lanes Evaluator::in_any_order(Batch& batch, int node_id, const Node& node) {
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  if (!math.budget || math.simulated)
    return math.binary(node, eval(batch, node.a), eval(batch, node.b), batch.n);
  Exponent found = new_exponent(batch.n);
  Lanes r = exponent(batch, node_id, found);
  math.widen_order(r, found.size, batch.n);
  return r;
}

// A logarithm that was shifted (shifted.h): m + log(y).
Lanes Evaluator::logarithm(Batch& batch, const Node& node) {
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  Exponent found = new_exponent(batch.n);
  const Lanes m = exponent(batch, node.a, found);
  Lanes r = math.binary(node, m, eval(batch, node.b), batch.n);
  math.widen_logarithm(r, found.size, batch.n, static_cast<Arithmetic::LogOf>(node.integer));
  math.settle_infinities(r, batch.n);
  return r;
}

Lanes Evaluator::scalar(const Batch& batch, const Node& node) {
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const Scalar& value = evaluation_.scalars[static_cast<std::size_t>(node.ref)];
  if (node.type != Type::Float) return math.integer(value.as_int(), batch.n);
  Lanes r;
  r.v = arena_.get<double>(batch.n);
  std::fill_n(r.v, batch.n, value.as_double());
  r.bits = numerics::info(info(value.dtype).format).precision();
  math.flag_nonfinite(r, batch.n);
  math.narrow(r, batch.n);
  return r;
}

Lanes Evaluator::conditional(Batch& batch, const Node& node) {
  const Lanes condition = eval(batch, node.a);
  const int n = batch.n;
  int* lanes[2] = {arena_.get<int>(n), arena_.get<int>(n)};  // [0]: else, [1]: then
  int count[2] = {0, 0};
  for (int l = 0; l < n; ++l) {
    const bool open = condition.b && condition.b[l] > 0;
    const int way = condition.i[l] != 0;
    lanes[way][count[way]++] = l;
    if (open) lanes[1 - way][count[1 - way]++] = l;
  }
  if (count[0] == n && count[1] == 0) return eval(batch, node.c);
  if (count[1] == n && count[0] == 0) return eval(batch, node.b);

  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  Lanes r;
  if (node.type == Type::Float)
    r.v = arena_.get<double>(n);
  else
    r.i = arena_.get<int64_t>(n);
  r.bits = 0;
  Lanes branches[2];
  for (const int way : {0, 1}) {
    if (count[way] == 0) continue;
    Batch part = select_with_terms(batch, lanes[way], count[way]);
    const Lanes value = eval(part, way == 1 ? node.b : node.c);
    if (batch.terms)
      for (int j = 0; j < count[way]; ++j) {
        double& terms = batch.terms[lanes[way][j]];
        terms = std::max(terms, part.terms[j]);
      }
    r.bits = std::max(r.bits, value.bits);
    if (value.b) math.need_budget(r, n);
    if (value.f || condition.f) math.need_flags(r, n);
    for (int j = 0; j < count[way]; ++j) {
      const int l = lanes[way][j];
      if ((condition.i[l] != 0) != (way == 1)) continue;
      if (r.v)
        r.v[l] = value.v[j];
      else
        r.i[l] = value.i[j];
      if (r.b) r.b[l] = value.b ? value.b[j] : 0;
      if (r.s) r.s[l] = value.s ? value.s[j] : 0;
      if (r.f) r.f[l] = static_cast<uint8_t>((value.f ? value.f[j] : 0) | (condition.f ? condition.f[l] : 0));
    }
    branches[way] = value;
  }
  if (condition.b) widen_undecided(condition, branches, lanes, count, n, math, r);
  return r;
}

// Where the condition could go the other way, the other branch is admitted too.
void Evaluator::widen_undecided(const Lanes& condition, const Lanes branches[2], int* const lanes[2],
                                const int count[2], int n, const Arithmetic& math, Lanes& r) {
  math.need_budget(r, n);
  math.need_flags(r, n);
  for (const int way : {0, 1})
    for (int j = 0; j < count[way]; ++j) {
      const int l = lanes[way][j];
      if (condition.b[l] == 0 || (condition.i[l] != 0) == (way == 1)) continue;
      const Lanes& other = branches[way];
      const double gap = r.v ? std::abs(other.v[j] - r.v[l])
                             : std::abs(static_cast<double>(other.i[j]) - static_cast<double>(r.i[l]));
      const double reach = gap + (other.b ? other.b[j] : 0);
      r.b[l] = std::isnan(reach) ? kInf : std::max(r.b[l], reach);
      if (r.s) r.s[l] = std::max(r.s[l], gap * gap);
      r.f[l] |= kUndecided;
    }
}

// The right operand is evaluated only where the left one does not decide.
Lanes Evaluator::logical(Batch& batch, const Node& node) {
  const Arithmetic& math = batch.values_only ? plain_ : budget_;
  const Lanes left = eval(batch, node.a);
  const int n = batch.n;
  const int64_t deciding = node.op == Op::Or;
  int* lanes = arena_.get<int>(n);
  int count = 0;
  Lanes r;
  r.i = arena_.get<int64_t>(n);
  for (int l = 0; l < n; ++l) {
    r.i[l] = left.i[l];
    if (left.i[l] != deciding || (left.b && left.b[l] > 0)) lanes[count++] = l;
  }
  if (left.f) {
    math.need_flags(r, n);
    std::copy_n(left.f, n, r.f);
  }
  if (count == 0) return r;
  Batch part = count == n ? batch : select(batch, lanes, count);
  const Lanes right = eval(part, node.b);
  if (left.b || right.b) math.need_budget(r, n);
  if (right.f) math.need_flags(r, n);
  for (int j = 0; j < count; ++j) {
    const int l = lanes[j];
    const bool open_left = left.b && left.b[l] > 0, open_right = right.b && right.b[j] > 0;
    const int64_t a = left.i[l], c = right.i[j];
    r.i[l] = deciding ? (a | c) : (a & c);
    if (right.f) r.f[l] |= right.f[j];
    // A side that is certain and decides makes the other's doubt irrelevant.
    const bool settled = (!open_left && a == deciding) || (!open_right && c == deciding);
    if (r.b) r.b[l] = (open_left || open_right) && !settled;
  }
  return r;
}

}  // namespace assay::reference
