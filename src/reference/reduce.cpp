// Sums, means and extremes.
//
// Many elements at once: one lane per element, the loops go around the batch, so
// that every step is a vector operation whatever the strides. Few elements with
// long loops: one lane per iteration, folded at the end. Both add in the order of
// the loops, compensated.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/evaluation.h"

namespace assay::reference {
namespace {

constexpr int kFewElements = 64;
constexpr int64_t kLongLoop = 64;

}  // namespace

// Iterations waiting to become a batch.
struct Evaluator::Tuples {
  const Loops& loops;
  const Flush& flush;
  int64_t* values[64];
  int filled = 0;
};

void Evaluator::enumerate(const Batch& batch, const Loops& loops, const Flush& flush) {
  Tuples tuples{loops, flush, {}, 0};
  for (const int variable : loops) tuples.values[variable] = arena_.get<int64_t>(kLanes);
  Batch one = batch;
  enumerate_from(one, 0, tuples);
  if (tuples.filled > 0) flush_tuples(one, tuples);
}

void Evaluator::enumerate_from(Batch& batch, std::size_t depth, Tuples& tuples) {
  if (evaluation_.failed()) return;
  if (depth == tuples.loops.size()) {  // no loops at all: one iteration
    tuples.filled = 1;
    return;
  }
  const int variable = tuples.loops[depth];
  const Bounds range = bounds(batch, variable);
  const bool innermost = depth + 1 == tuples.loops.size();
  for (int64_t k = range.low; k < range.high; ++k) {
    batch.uniform[variable] = k;
    if (!innermost) {
      enumerate_from(batch, depth + 1, tuples);
      continue;
    }
    const int room = static_cast<int>(std::min<int64_t>(kLanes - tuples.filled, range.high - k));
    for (std::size_t d = 0; d < depth; ++d)
      std::fill_n(tuples.values[tuples.loops[d]] + tuples.filled, room, batch.uniform[tuples.loops[d]]);
    for (int j = 0; j < room; ++j) tuples.values[variable][tuples.filled + j] = k + j;
    tuples.filled += room;
    k += room - 1;
    if (tuples.filled == kLanes) flush_tuples(batch, tuples);
    if (evaluation_.failed()) return;
  }
}

void Evaluator::flush_tuples(const Batch& batch, Tuples& tuples) {
  const Arena::Mark mark = arena_.mark();
  Batch full = batch;
  full.n = tuples.filled;
  full.id = next_batch_++;
  full.terms = nullptr;
  for (const int variable : tuples.loops) {
    const int64_t* values = tuples.values[variable];
    const bool same = std::all_of(values, values + tuples.filled, [&](int64_t v) { return v == values[0]; });
    full.index[variable] = same ? nullptr : tuples.values[variable];
    full.uniform[variable] = values[0];
  }
  if (tuples.loops.empty()) full.n = 1;
  tuples.flush(full);
  tuples.filled = 0;
  arena_.release(mark);
}

Evaluator::Bounds Evaluator::bounds(Batch& batch, int variable) {
  const Variable& made = definition(batch.definition).variables[static_cast<std::size_t>(variable)];
  const Range& range = shaped(batch.definition).ranges[static_cast<std::size_t>(variable)];
  Bounds result{range.low, range.high, true, {}, {}};
  if (!range.constant && made.low >= 0) {
    result.lows = eval(batch, made.low);
    result.highs = eval(batch, made.high);
    result.low = *std::min_element(result.lows.i, result.lows.i + batch.n);
    result.high = *std::max_element(result.highs.i, result.highs.i + batch.n);
    for (int l = 0; l < batch.n; ++l)
      result.uniform &= result.lows.i[l] == result.low && result.highs.i[l] == result.high;
  }
  if (evaluation_.simulated && result.high > result.low && is_dropped(batch.definition, variable)) {
    const Defect& defect = evaluation_.defect_of(batch.definition);
    int64_t dropped = defect.dropped_terms;
    if (defect.dropped_fraction > 0) dropped = (result.high - result.low) / defect.dropped_fraction;
    result.high -= std::min(dropped, result.high - result.low - 1);
  }
  return result;
}

// Terms are dropped from the innermost loop of definitions that reduce.
bool Evaluator::is_dropped(int definition_id, int variable) const {
  const Definition& made = definition(definition_id);
  return adds_up(made.reduce) && !made.reduced.empty() && made.reduced.back() == variable;
}

int64_t Evaluator::trips(const Loops& loops, int definition_id) const {
  double product = 1;
  for (const int variable : loops)
    product *= static_cast<double>(shaped(definition_id).ranges[static_cast<std::size_t>(variable)].length());
  return product > 1e18 ? int64_t{1} << 60 : static_cast<int64_t>(product);
}

// ---- one lane per element ----------------------------------------------------------

void Evaluator::loop(Batch& batch, const Loops& loops, std::size_t depth, const int* map,
                     Accumulator& total) {
  if (evaluation_.failed()) return;
  if (depth == loops.size()) return term(batch, map, total);
  const int variable = loops[depth];
  const Bounds range = bounds(batch, variable);
  for (int64_t k = range.low; k < range.high; ++k) {
    const Arena::Mark mark = arena_.mark();
    batch.uniform[variable] = k;
    if (range.uniform) {
      loop(batch, loops, depth + 1, map, total);
    } else {
      int* lanes = arena_.get<int>(batch.n);
      int count = 0;
      for (int l = 0; l < batch.n; ++l)
        if (k >= range.lows.i[l] && k < range.highs.i[l]) lanes[count++] = l;
      if (count == batch.n) {
        loop(batch, loops, depth + 1, map, total);
      } else if (count > 0) {
        Batch part = select(batch, lanes, count);
        if (map)
          for (int j = 0; j < count; ++j) lanes[j] = map[lanes[j]];
        loop(part, loops, depth + 1, lanes, total);
      }
    }
    arena_.release(mark);
    if (evaluation_.failed()) return;
  }
}

void Evaluator::term(Batch& batch, const int* map, Accumulator& total) {
  const Definition& made = definition(batch.definition);
  Batch* at = &batch;
  Batch part;
  Lanes filter;
  if (made.filter >= 0) {
    filter = eval(batch, made.filter);
    int* lanes = arena_.get<int>(batch.n);
    int count = 0;
    for (int l = 0; l < batch.n; ++l)
      if (filter.i[l] != 0 || (filter.b && filter.b[l] > 0)) lanes[count++] = l;
    if (count == 0) return;
    if (count < batch.n || filter.b) {
      part = select(batch, lanes, count);
      at = &part;
      if (filter.b) filter = keep(filter, lanes, count);
      for (int j = 0; j < count; ++j) lanes[j] = map ? map[lanes[j]] : lanes[j];
      map = lanes;
    }
  }
  Lanes t;
  if (const std::optional<LeastNormals> least = least_normals(*at)) {
    const Node& product = made.nodes[static_cast<std::size_t>(made.body)];
    const Lanes a = eval(*at, product.a), b = eval(*at, product.b);
    t = binary(*at, product, a, b);
    if (!evaluation_.failed()) add_aligned(total, a, b, *least, at->n, map);
  } else {
    t = eval(*at, made.body);
  }
  if (made.weighted >= 0 && !evaluation_.simulated && !at->values_only) {
    const Lanes w = eval(*at, made.weighted);
    for (int l = 0; l < at->n; ++l) total.weighted[map ? map[l] : l] += std::abs(w.v[l]);
  }
  if (evaluation_.failed()) return;
  if (filter.b) open_filter(filter, at->n, made.reduce == Reduce::Prod ? 1 : 0, t);
  if (adds_up(made.reduce)) {
    if (!t.v) return add_integers(total, t, at->n, map);
    const Defect* defect = evaluation_.simulated ? &evaluation_.defect_of(batch.definition) : nullptr;
    SumRules rules{at->values_only, defect, evaluation_.precision.dtype, partial_terms(*at),
                   evaluation_.precision.u};
    return add_terms(total, t, at->n, map, rules);
  }
  if (made.reduce == Reduce::Prod) return multiply_terms(total, t, at->n, map);
  const int variable = made.reduced.empty() ? -1 : made.reduced.back();
  const int64_t* which = variable >= 0 ? at->index[variable] : nullptr;
  const int64_t uniform_which = variable >= 0 ? at->uniform[variable] : 0;
  offer(total, t, at->n, map, made.reduce, which, uniform_which,
        evaluation_.simulated && evaluation_.simulated->hides_nan);
}

// A tensor core aligns products by the exponents of their factors before they are normalised: a subnormal f16, or an fp8 that
// becomes one, has that of the smallest normal number, and its product costs the others more bits than its size suggests.
std::optional<LeastNormals> Evaluator::least_normals(const Batch& batch) const {
  const Definition& made = definition(batch.definition);
  if (!evaluation_.options.tensor_cores || evaluation_.simulated || batch.values_only || !is_product(made) ||
      !adds_up(made.reduce))
    return {};
  const auto least = [&](int id) {
    const Node& factor = made.nodes[static_cast<std::size_t>(id)];
    std::optional<DType> dtype;
    if (factor.op == Op::CastFloat) dtype = factor.dtype;
    if (factor.op == Op::Load) {
      const Source& source = evaluation_.compiled.sources[static_cast<std::size_t>(factor.ref)];
      if (source.is_input)
        dtype = evaluation_.contract.tensors[static_cast<std::size_t>(source.tensor)].dtype;
    }
    const bool becomes_f16 = dtype == DType::f16 || dtype == DType::e5m2 || dtype == DType::e4m3;
    return becomes_f16 ? numerics::min_normal(numerics::Format::F16) : 0;
  };
  const Node& product = made.nodes[static_cast<std::size_t>(made.body)];
  const LeastNormals found{least(product.a), least(product.b)};
  if (found.a == 0 && found.b == 0) return {};
  return found;
}

Lanes Evaluator::keep(const Lanes& filter, const int* lanes, int count) {
  Lanes kept;
  kept.i = arena_.get<int64_t>(count);
  kept.b = arena_.get<double>(count);
  for (int j = 0; j < count; ++j) {
    kept.i[j] = filter.i[lanes[j]];
    kept.b[j] = filter.b[lanes[j]];
  }
  return kept;
}

// A term that may or may not belong to the sum: its distance from what changes nothing is a budget.
void Evaluator::open_filter(const Lanes& filter, int n, double neutral, Lanes& t) {
  const bool extreme = !t.v;
  budget_.need_budget(t, n);
  budget_.need_flags(t, n);
  for (int l = 0; l < n; ++l) {
    if (filter.b[l] == 0) continue;
    t.f[l] |= kUndecided;
    if (extreme) {
      t.b[l] = kInf;
      continue;
    }
    const double size = std::abs(t.v[l] - neutral);
    t.b[l] += size;
    t.s[l] += size * size;
    if (filter.i[l] == 0) t.v[l] = neutral;
  }
}

int64_t Evaluator::partial_terms(const Batch& batch) const {
  if (!evaluation_.simulated) return 0;
  const Defect& defect = evaluation_.defect_of(batch.definition);
  if (!defect.partials) return 0;
  if (defect.partial_terms > 0) return defect.partial_terms;
  return std::max<int64_t>(1, trips(definition(batch.definition).reduced, batch.definition) / 16);
}

// ---- one lane per iteration --------------------------------------------------------

void Evaluator::reduce_by_terms(const Batch& batch, int lane, const Loops& loops, Accumulator& total,
                                int at) {
  const Arena::Mark mark = arena_.mark();
  const Definition& made = definition(batch.definition);
  const Reduce reduce = made.reduce;
  Accumulator lanes = Accumulator::make(arena_, kLanes, reduce);
  const Batch one = select(batch, &lane, 1);
  Batch fixed = one;
  for (std::size_t v = 0; v < made.variables.size(); ++v)
    if (fixed.index[v]) {
      fixed.uniform[v] = fixed.index[v][0];
      fixed.index[v] = nullptr;
    }
  int used = 0;
  double before = 0, walk = 0;
  enumerate(fixed, loops, [&](Batch& full) {
    used = std::max(used, full.n);
    lanes.together = before;
    term(full, nullptr, lanes);
    if (!adds_up(reduce) || full.values_only) return;
    double after = 0;
    for (int l = 0; l < used; ++l) after += lanes.sum[l];
    walk += full.n * std::max(before * before, after * after);
    before = after;
  });
  fold(lanes, used, total, at, reduce, made.type() != Type::Float);
  total.walk[at] += walk;
  arena_.release(mark);
}

void Evaluator::reduce_into(Batch& batch, const int64_t* elements, Accumulator& total) {
  const Definition& made = definition(batch.definition);
  if (made.is_scatter()) return reduce_scatter(batch, elements, total);
  const bool by_terms =
      batch.n < kFewElements && trips(made.reduced, batch.definition) >= kLongLoop && !evaluation_.simulated;
  if (!by_terms) return loop(batch, made.reduced, 0, nullptr, total);
  for (int l = 0; l < batch.n; ++l) reduce_by_terms(batch, l, made.reduced, total, l);
}

}  // namespace assay::reference
