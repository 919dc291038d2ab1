// Sums, means and extremes.
//
// Many elements at once: one lane per element, the loops go around the block, so
// that every step is a vector operation whatever the strides. Few elements with
// long loops: one lane per iteration, folded at the end. Both add in the order of
// the loops, compensated.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "contract/session.h"

namespace assay::contract {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kFp8Sum = 0x1p-13;  // unit of a 14-bit running sum
constexpr int kFewElements = 64;
constexpr int64_t kLongLoop = 64;

bool is_sum(Reduce reduce) {
  return reduce == Reduce::Sum || reduce == Reduce::Mean;
}

}  // namespace

// Iterations waiting to become a block.
struct Worker::Tuples {
  const Loops& loops;
  const Flush& flush;
  int64_t* values[64];
  int filled = 0;
};

void Worker::enumerate(const Block& block, const Loops& loops, const Flush& flush) {
  Tuples tuples{loops, flush, {}, 0};
  for (const int variable : loops) tuples.values[variable] = arena_.get<int64_t>(kLanes);
  Block one = block;
  enumerate_from(one, 0, tuples);
  if (tuples.filled > 0) flush_tuples(one, tuples);
}

void Worker::enumerate_from(Block& block, std::size_t depth, Tuples& tuples) {
  if (session_.failed()) return;
  if (depth == tuples.loops.size()) {  // no loops at all: one iteration
    tuples.filled = 1;
    return;
  }
  const int variable = tuples.loops[depth];
  const Bounds range = bounds(block, variable);
  const bool innermost = depth + 1 == tuples.loops.size();
  for (int64_t k = range.low; k < range.high; ++k) {
    block.uniform[variable] = k;
    if (!innermost) {
      enumerate_from(block, depth + 1, tuples);
      continue;
    }
    const int room = static_cast<int>(std::min<int64_t>(kLanes - tuples.filled, range.high - k));
    for (std::size_t d = 0; d < depth; ++d)
      std::fill_n(tuples.values[tuples.loops[d]] + tuples.filled, room, block.uniform[tuples.loops[d]]);
    for (int j = 0; j < room; ++j) tuples.values[variable][tuples.filled + j] = k + j;
    tuples.filled += room;
    k += room - 1;
    if (tuples.filled == kLanes) flush_tuples(block, tuples);
    if (session_.failed()) return;
  }
}

void Worker::flush_tuples(const Block& block, Tuples& tuples) {
  const Arena::Mark mark = arena_.mark();
  Block full = block;
  full.n = tuples.filled;
  full.id = next_block_++;
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

Worker::Bounds Worker::bounds(Block& block, int variable) {
  const Variable& made = definition(block.definition).variables[static_cast<std::size_t>(variable)];
  const Range& range = plan(block.definition).ranges[static_cast<std::size_t>(variable)];
  Bounds result{range.low, range.high, true, {}, {}};
  if (!range.constant && made.low >= 0) {
    result.lows = eval(block, made.low);
    result.highs = eval(block, made.high);
    result.low = *std::min_element(result.lows.i, result.lows.i + block.n);
    result.high = *std::max_element(result.highs.i, result.highs.i + block.n);
    for (int l = 0; l < block.n; ++l)
      result.uniform &= result.lows.i[l] == result.low && result.highs.i[l] == result.high;
  }
  if (session_.simulated && result.high > result.low && is_dropped(block.definition, variable)) {
    const Defect& defect = *session_.simulated;
    int64_t dropped = defect.dropped_terms;
    if (defect.dropped_fraction > 0) dropped = (result.high - result.low) / defect.dropped_fraction;
    result.high -= std::min(dropped, result.high - result.low - 1);
  }
  return result;
}

// Terms are dropped from the innermost loop of definitions that reduce.
bool Worker::is_dropped(int definition_id, int variable) const {
  const Definition& made = definition(definition_id);
  return is_sum(made.reduce) && !made.reduced.empty() && made.reduced.back() == variable;
}

int64_t Worker::trips(const Loops& loops, int definition_id) const {
  double product = 1;
  for (const int variable : loops)
    product *= static_cast<double>(plan(definition_id).ranges[static_cast<std::size_t>(variable)].length());
  return product > 1e18 ? int64_t{1} << 60 : static_cast<int64_t>(product);
}

// ---- one lane per element ----------------------------------------------------------

void Worker::loop(Block& block, const Loops& loops, std::size_t depth, const int* map, Accumulator& total) {
  if (session_.failed()) return;
  if (depth == loops.size()) return term(block, map, total);
  const int variable = loops[depth];
  const Bounds range = bounds(block, variable);
  for (int64_t k = range.low; k < range.high; ++k) {
    const Arena::Mark mark = arena_.mark();
    block.uniform[variable] = k;
    if (range.uniform) {
      loop(block, loops, depth + 1, map, total);
    } else {
      int* lanes = arena_.get<int>(block.n);
      int count = 0;
      for (int l = 0; l < block.n; ++l)
        if (k >= range.lows.i[l] && k < range.highs.i[l]) lanes[count++] = l;
      if (count == block.n) {
        loop(block, loops, depth + 1, map, total);
      } else if (count > 0) {
        Block part = select(block, lanes, count);
        if (map)
          for (int j = 0; j < count; ++j) lanes[j] = map[lanes[j]];
        loop(part, loops, depth + 1, lanes, total);
      }
    }
    arena_.release(mark);
    if (session_.failed()) return;
  }
}

void Worker::term(Block& block, const int* map, Accumulator& total) {
  const Definition& made = definition(block.definition);
  Block* at = &block;
  Block part;
  Lanes filter;
  if (made.filter >= 0) {
    filter = eval(block, made.filter);
    int* lanes = arena_.get<int>(block.n);
    int count = 0;
    for (int l = 0; l < block.n; ++l)
      if (filter.i[l] != 0 || (filter.b && filter.b[l] > 0)) lanes[count++] = l;
    if (count == 0) return;
    if (count < block.n || filter.b) {
      part = select(block, lanes, count);
      at = &part;
      if (filter.b) filter = keep(filter, lanes, count);
      for (int j = 0; j < count; ++j) lanes[j] = map ? map[lanes[j]] : lanes[j];
      map = lanes;
    }
  }
  Lanes t = eval(*at, made.body);
  if (session_.failed()) return;
  if (filter.b) open_filter(filter, at->n, t);
  if (is_sum(made.reduce)) {
    if (!t.v) return add_integers(total, t, at->n, map);
    SumRules rules{at->values_only, session_.simulated, session_.precision.dtype, partial_terms(*at)};
    return add_terms(total, t, at->n, map, rules);
  }
  const int variable = made.reduced.empty() ? -1 : made.reduced.back();
  const int64_t* which = variable >= 0 ? at->index[variable] : nullptr;
  const int64_t uniform_which = variable >= 0 ? at->uniform[variable] : 0;
  offer(total, t, at->n, map, made.reduce, which, uniform_which,
        session_.simulated && session_.simulated->hides_nan);
}

Lanes Worker::keep(const Lanes& filter, const int* lanes, int count) {
  Lanes kept;
  kept.i = arena_.get<int64_t>(count);
  kept.b = arena_.get<double>(count);
  for (int j = 0; j < count; ++j) {
    kept.i[j] = filter.i[lanes[j]];
    kept.b[j] = filter.b[lanes[j]];
  }
  return kept;
}

// A term that may or may not belong to the sum: its size is a budget.
void Worker::open_filter(const Lanes& filter, int n, Lanes& t) {
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
    const double size = std::abs(t.v[l]);
    t.b[l] += size;
    t.s[l] += size * size;
    if (filter.i[l] == 0) t.v[l] = 0;
  }
}

int64_t Worker::partial_terms(const Block& block) const {
  const Defect* defect = session_.simulated;
  if (!defect || !defect->partials) return 0;
  if (defect->partial_terms > 0) return defect->partial_terms;
  return std::max<int64_t>(1, trips(definition(block.definition).reduced, block.definition) / 16);
}

// ---- one lane per iteration --------------------------------------------------------

void Worker::reduce_by_terms(const Block& block, int lane, const Loops& loops, Accumulator& total, int at) {
  const Arena::Mark mark = arena_.mark();
  const Definition& made = definition(block.definition);
  const Reduce reduce = made.reduce;
  Accumulator lanes = Accumulator::make(arena_, kLanes, reduce);
  const Block one = select(block, &lane, 1);
  Block fixed = one;
  for (std::size_t v = 0; v < made.variables.size(); ++v)
    if (fixed.index[v]) {
      fixed.uniform[v] = fixed.index[v][0];
      fixed.index[v] = nullptr;
    }
  int used = 0;
  double before = 0, walk = 0;
  enumerate(fixed, loops, [&](Block& full) {
    used = std::max(used, full.n);
    term(full, nullptr, lanes);
    if (!is_sum(reduce) || full.values_only) return;
    double after = 0;
    for (int l = 0; l < used; ++l) after += lanes.sum[l];
    walk += full.n * std::max(before * before, after * after);
    before = after;
  });
  fold(lanes, used, total, at, reduce, made.type() != Type::Float);
  total.walk[at] += walk;
  arena_.release(mark);
}

void Worker::reduce_into(Block& block, const int64_t* elements, Accumulator& total) {
  const Definition& made = definition(block.definition);
  if (made.is_scatter()) return reduce_scatter(block, elements, total);
  const bool by_terms =
      block.n < kFewElements && trips(made.reduced, block.definition) >= kLongLoop && !session_.simulated;
  if (!by_terms) return loop(block, made.reduced, 0, nullptr, total);
  for (int l = 0; l < block.n; ++l) reduce_by_terms(block, l, made.reduced, total, l);
}

// ---- budgets -----------------------------------------------------------------------

void Worker::set_shift(int definition_id, const std::vector<int>& nodes, Shift shift) {
  for (const int node : nodes)
    shifts_[static_cast<std::size_t>(definition_id)][static_cast<std::size_t>(node)] = shift;
}

// What the error of a value that all terms share does to the sum, by moving it.
// For a mean under a variance, for example, that is nothing at first order.
void Worker::common_mode(Block& block, const int64_t* elements, Accumulator& total) {
  const bool values_only = block.values_only;
  const std::vector<char>& suppressed = suppressed_[static_cast<std::size_t>(block.definition)];
  for (const std::vector<int>& group : session_.common_loads(block.definition)) {
    const bool inexact =
        std::ranges::any_of(group, [&](int node) { return suppressed[static_cast<std::size_t>(node)] != 0; });
    if (!inexact) continue;
    block.values_only = true;
    for (const Shift shift : {Shift::Up, Shift::Down, Shift::Deviation}) {
      const Arena::Mark mark = arena_.mark();
      set_shift(block.definition, group, shift);
      Accumulator moved = Accumulator::make(arena_, block.n, Reduce::Sum);
      reduce_into(block, elements, moved);
      for (int l = 0; l < block.n; ++l) {
        const double change =
            std::abs((moved.sum[l] - total.sum[l]) + (moved.low_part[l] - total.low_part[l]));
        const double most = std::isnan(change) ? kInf : change;
        if (shift == Shift::Deviation)
          total.variance[l] += most * most;
        else if (shift == Shift::Up)
          total.partial[l] = most;
        else
          total.bound[l] += std::max(total.partial[l], most);
      }
      arena_.release(mark);
    }
    set_shift(block.definition, group, Shift::Exact);
    block.values_only = values_only;
  }
}

// What the elements were before this assignment.
Lanes Worker::previous(Block& block, const int64_t* elements) {
  const Definition& made = definition(block.definition);
  const Source& source = session_.program.sources[static_cast<std::size_t>(made.previous)];
  Offsets offset;
  offset.at = arena_.get<int64_t>(block.n);
  std::copy_n(elements, block.n, offset.at);
  Node node;
  node.type = made.type();
  return source.is_input ? load_input(block, source, offset)
                         : load_definition(block, made.body, node, source.definition, offset);
}

void Worker::add_previous(Block& block, const int64_t* elements, Accumulator& total) {
  const Definition& made = definition(block.definition);
  if (made.previous < 0) return;
  const Lanes value = previous(block, elements);
  if (session_.failed()) return;
  if (!is_sum(made.reduce)) return offer(total, value, block.n, nullptr, made.reduce, nullptr, 0, false);
  if (!value.v) return add_integers(total, value, block.n, nullptr);
  SumRules rules{block.values_only, session_.simulated, session_.precision.dtype, 0};
  add_terms(total, value, block.n, nullptr, rules);
}

void Worker::reduce(Block& block, const int64_t* elements, const Elements& out) {
  const Definition& made = definition(block.definition);
  const auto& common = session_.common_loads(block.definition);
  Accumulator total = Accumulator::make(arena_, block.n, made.reduce);
  if (session_.simulated && one_pass_variance(block, total)) return finish(block, total, out);
  const bool shares = !common.empty() && !session_.simulated;
  if (shares)
    for (const std::vector<int>& group : common) {
      set_shift(block.definition, group, Shift::Exact);
      for (const int node : group)
        suppressed_[static_cast<std::size_t>(block.definition)][static_cast<std::size_t>(node)] = 0;
    }
  if (!shares) add_previous(block, elements, total);
  reduce_into(block, elements, total);
  if (shares) {
    common_mode(block, elements, total);
    for (const std::vector<int>& group : common) set_shift(block.definition, group, Shift::None);
    add_previous(block, elements, total);
  }
  if (!session_.failed()) finish(block, total, out);
}

// Sum of (a - m)² as a sum of a² less n m²: what a one-pass kernel does.
bool Worker::one_pass_variance(Block& block, Accumulator& total) {
  const Definition& made = definition(block.definition);
  if (!session_.simulated->one_pass_variance || !is_variance(made)) return false;
  const Node& square = made.nodes[static_cast<std::size_t>(made.body)];
  const Node& difference = made.nodes[static_cast<std::size_t>(square.a)];
  int64_t terms = 0;
  SumRules rules{false, session_.simulated, session_.precision.dtype, 0};
  const DType dtype = session_.precision.dtype;
  const auto add_square = [&](Block& at) {
    const Lanes x = eval(at, difference.a);
    Lanes squared = x;
    squared.v = arena_.get<double>(at.n);
    for (int l = 0; l < at.n; ++l) squared.v[l] = rounded(dtype, x.v[l] * x.v[l]);
    add_terms(total, squared, at.n, nullptr, rules);
    ++terms;
  };
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth == made.reduced.size()) return add_square(block);
    const Bounds range = bounds(block, made.reduced[depth]);
    for (int64_t k = range.low; k < range.high && !session_.failed(); ++k) {
      const Arena::Mark mark = arena_.mark();
      block.uniform[made.reduced[depth]] = k;
      nest(depth + 1);
      arena_.release(mark);
    }
  };
  nest(0);
  const Lanes mean = eval(block, difference.b);
  for (int l = 0; l < block.n; ++l) {
    const double product = rounded(dtype, rounded(dtype, mean.v[l] * mean.v[l]) * static_cast<double>(terms));
    total.sum[l] = std::max(0.0, rounded(dtype, total.sum[l] - product));
  }
  return true;
}

bool Worker::is_variance(const Definition& made) {
  if (!is_sum(made.reduce) || made.type() != Type::Float || made.filter >= 0 || made.is_scatter())
    return false;
  const Node& square = made.nodes[static_cast<std::size_t>(made.body)];
  if (square.op != Op::Pow || !square.literal_exponent || square.integer != 2) return false;
  const Node& difference = made.nodes[static_cast<std::size_t>(square.a)];
  if (difference.op != Op::Sub) return false;
  uint64_t loops = 0;
  for (const int variable : made.reduced) loops |= uint64_t{1} << variable;
  const uint64_t minuend = made.nodes[static_cast<std::size_t>(difference.a)].indices;
  const uint64_t subtrahend = made.nodes[static_cast<std::size_t>(difference.b)].indices;
  return (minuend & loops) != 0 && (subtrahend & loops) == 0;
}

void Worker::finish(const Block& block, const Accumulator& total, const Elements& out) {
  const Definition& made = definition(block.definition);
  for (int l = 0; l < block.n; ++l) {
    out.terms[l] = std::max(1.0, total.count[l]);
    out.f[l] = total.flags[l];
    out.b[l] = out.s[l] = 0;
    if (!is_sum(made.reduce))
      finish_extreme(made, total, l, out);
    else if (made.type() != Type::Float)
      finish_integer_sum(made, total, l, out);
    else
      finish_sum(block, total, l, out);
  }
}

void Worker::finish_extreme(const Definition& made, const Accumulator& total, int l, const Elements& out) {
  const bool largest = made.reduce == Reduce::Max || made.reduce == Reduce::ArgMax;
  const double sign = largest ? 1 : -1;
  const bool chooses = made.reduce == Reduce::ArgMax || made.reduce == Reduce::ArgMin;
  if (total.count[l] == 0 && (chooses || made.type() != Type::Float))
    return session_.fail(made.place, fmt::format("an empty {} has no value",
                                                 chooses ? to_string(made.reduce) : "max of integers"));
  const double v = total.sum[l];
  out.magnitude[l] = std::abs(v);
  const double far = sign * std::max(sign * total.high[l], sign * total.squares[l]);
  const bool open = total.bound[l] > 0 && std::isfinite(v);
  if (chooses) {
    out.v[l] = std::bit_cast<double>(total.which[l]);
    if (!open || sign * total.high[l] < sign * total.low[l]) return;
    out.b[l] = kInf;  // candidates() tells which others
    out.f[l] |= kUndecided;
    return;
  }
  if (made.type() != Type::Float) {
    out.v[l] = std::bit_cast<double>(static_cast<int64_t>(total.integer[l]));
    if (open) out.b[l] = std::max(std::abs(far - v), std::abs(v - total.low[l]));
    return;
  }
  out.v[l] = v;
  if (!open) return;
  out.b[l] = std::max(sign * (far - v), sign * (v - total.low[l]));
  out.s[l] = total.variance[l];
}

void Worker::finish_integer_sum(const Definition& made, const Accumulator& total, int l,
                                const Elements& out) {
  const auto value = static_cast<int64_t>(total.integer[l]);
  if (value != total.integer[l]) session_.fail(made.place, "a sum of integers does not fit 64 bits");
  out.v[l] = std::bit_cast<double>(value);
  out.b[l] = total.bound[l];
  out.magnitude[l] = total.magnitude[l];
}

void Worker::finish_sum(const Block& block, const Accumulator& total, int l, const Elements& out) {
  const Definition& made = definition(block.definition);
  const Precision& precision = session_.precision;
  const double n = total.count[l];
  const bool mean = made.reduce == Reduce::Mean;
  if (mean && n == 0) return session_.fail(made.place, "a mean over nothing has no value");
  if (session_.simulated) {
    out.v[l] = simulated_sum(total, l, mean);
    out.magnitude[l] = std::abs(out.v[l]);
    return;
  }
  double v = std::isfinite(total.sum[l]) ? total.sum[l] + total.low_part[l] : total.sum[l];
  const double size = total.magnitude[l], u = precision.u;
  double b = total.bound[l], s = total.variance[l];
  if (n > 1) {
    // Any order: n - 1 additions, none larger than the sum of all sizes. As
    // statistics: the walk of partial sums, in a random order or in that of the loops.
    b += (n - 1) * u * (size + b) + n * precision.eta;
    const double random = n * v * v / 3 + n * total.squares[l] / 6 + v * v;
    s += kRms * kRms * u * u * std::max(random, total.walk[l]);
    const double mean_term = v / n;
    const double spread = total.squares[l] / n - mean_term * mean_term;
    if (n >= 64 && spread <= 16 * u * u * v * v) {
      // Equal terms: every addition in a binade loses the same.
      s = std::max(s, 0.25 * n * n * u * u * v * v);
      out.f[l] |= kCoherent;
    }
    if (session_.options.tensor_cores && is_product(made))
      add_tensor_core(is_fp8_product(session_.contract, session_.program, made), n, v, size, total.squares[l],
                      b, s);
  }
  // Where only an exp overflows, shifting it does not.
  const bool avoidable = made.nodes[static_cast<std::size_t>(made.body)].exponential;
  if (size > precision.max && std::isfinite(v) && !avoidable) out.f[l] |= kMayOverflow;
  out.magnitude[l] = mean ? size / n : size;
  if (mean) {
    v /= n;
    b = b / n + 2 * u * std::abs(v) + precision.eta;
    s = s / (n * n) + kRms * kRms * 2 * u * u * v * v;
  }
  out.v[l] = v;
  const bool finite = std::isfinite(v);
  out.b[l] = !finite ? 0 : std::isnan(b) ? kInf : b;
  out.s[l] = !finite ? 0 : std::isnan(s) ? kInf : s;
}

bool Worker::is_product(const Definition& made) {
  return made.nodes[static_cast<std::size_t>(made.body)].op == Op::Mul;
}

bool Worker::is_fp8_product(const Contract& contract, const Program& program, const Definition& made) {
  if (!is_product(made)) return false;
  const Node& product = made.nodes[static_cast<std::size_t>(made.body)];
  return std::ranges::all_of(std::array{product.a, product.b}, [&](int id) {
    const Node& operand = made.nodes[static_cast<std::size_t>(id)];
    if (operand.op != Op::Load) return false;
    const Source& source = program.sources[static_cast<std::size_t>(operand.ref)];
    if (!source.is_input) return false;
    const DType dtype = contract.tensors[static_cast<std::size_t>(source.tensor)].dtype;
    return dtype == DType::e4m3 || dtype == DType::e5m2;
  });
}

// Hopper: products in groups of 16, aligned to the largest and cut off two bits
// below its last, the running sum rounded toward zero. fp8: groups of 32, a running
// sum of 14 bits; a sound kernel moves it to f32 every 128 terms.
void Worker::add_tensor_core(bool fp8, double n, double v, double size, double squares, double& b,
                             double& s) const {
  const double u = session_.precision.u, groups = std::ceil(n / 16);
  b += groups * 2 * u * size + n * u * size;
  const double rms = 2 * 0.849 * u;
  s += rms * rms * groups * (v * v / 3 + squares / 6) + std::pow(0.36 * 2 * u * groups * v, 2);
  if (!fp8) return;
  const double steps = std::ceil(std::min(n, 128.0) / 32), coarse = kFp8Sum;
  b += 2 * steps * coarse * size;
  s += std::pow(0.849 * coarse, 2) * steps / 3 * std::max(v * v / std::ceil(n / 128), squares) +
       std::pow(0.36 * coarse * steps * v, 2);
}

double Worker::simulated_sum(const Accumulator& total, int l, bool mean) const {
  const Defect& defect = *session_.simulated;
  const DType dtype = session_.precision.dtype;
  double v = total.sum[l];
  if (defect.partials && total.partial_count[l] > 0)
    v = rounded(dtype, v + rounded(*defect.partials, total.partial[l]));
  if (mean)
    v = rounded(dtype, v / std::max(1.0, total.count[l] + static_cast<double>(defect.divisor_offset)));
  return defect.reduced ? rounded(*defect.reduced, v) : v;
}

// ---- undecided elements ------------------------------------------------------------

// What a chain of monotone operations makes of an outcome.
Outcome Worker::mapped(const Definition& made, const std::vector<int>& chain, const Outcome& inner) {
  const auto apply = [&](double x) {
    Lanes value = plain_.real(x, 1);
    for (std::size_t i = chain.size(); i-- > 0;) {
      const Node& node = made.nodes[static_cast<std::size_t>(chain[i])];
      if (node.op != Op::ToFloat || value.i) value = plain_.unary(node, value, 1);
    }
    return value.v ? value.v[0] : static_cast<double>(value.i[0]);
  };
  return {apply(inner.value), apply(inner.low), apply(inner.high)};
}

std::vector<Outcome> Worker::outcomes(int definition_id, int64_t element) {
  const Definition& made = definition(definition_id);
  if (made.reduce == Reduce::ArgMax || made.reduce == Reduce::ArgMin)
    return arg_outcomes(definition_id, element);
  if (made.reduce != Reduce::None || made.is_scatter()) return {};
  Block block = block_of(definition_id, &element, 1);
  // Outermost roundings to integers are monotone: look through them.
  std::vector<int> chain;
  int base = made.body;
  const auto at = [&](int id) -> const Node& { return made.nodes[static_cast<std::size_t>(id)]; };
  const auto is_step = [](Op op) {
    return op == Op::ToFloat || op == Op::CastInt || op == Op::StoreInt || op == Op::Floor ||
           op == Op::Ceil || op == Op::Round;
  };
  while (is_step(at(base).op)) {
    chain.push_back(base);
    base = at(base).a;
  }
  std::vector<Outcome> list;
  const auto add = [&](const Lanes& value) {
    const double v = value.v ? value.v[0] : static_cast<double>(value.i[0]), b = value.b ? value.b[0] : 0;
    list.push_back(mapped(made, chain, {v, v - b, v + b}));
  };
  if (at(base).op == Op::If) {
    const Lanes condition = eval(block, at(base).a);
    if (condition.b && condition.b[0] > 0) {
      for (const bool taken : {true, false})
        add(eval(block, (condition.i[0] != 0) == taken ? at(base).b : at(base).c));
      return list;
    }
  }
  if (at(base).op == Op::Load) {
    const Source& source = session_.program.sources[static_cast<std::size_t>(at(base).ref)];
    Offsets offset;
    if (!source.is_input && offsets(block, base, at(base), offset) && !offset.uncertain)
      for (const Outcome& inner : outcomes(source.definition, offset.at[0]))
        list.push_back(mapped(made, chain, inner));
    if (!list.empty()) return list;
  }
  if (!chain.empty()) add(eval(block, base));
  return list;
}

// Every index whose value reaches the largest value that is certain.
std::vector<Outcome> Worker::arg_outcomes(int definition_id, int64_t element) {
  const Definition& made = definition(definition_id);
  const double sign = made.reduce == Reduce::ArgMin ? -1 : 1;
  const int variable = made.reduced[0];
  const Block block = block_of(definition_id, &element, 1);
  std::vector<std::pair<double, int64_t>> reaches;  // the far end of each, and its index
  double least = -kInf, best = -kInf;
  int64_t chosen = 0;
  enumerate(block, made.reduced, [&](Block& full) {
    const Lanes filter = made.filter >= 0 ? eval(full, made.filter) : Lanes{};
    for (int l = 0; l < full.n; ++l) {
      const bool open = filter.b && filter.b[l] > 0;
      if (filter.i && filter.i[l] == 0 && !open) continue;
      Block one = select(full, &l, 1);
      const Lanes t = eval(one, made.body);
      const int64_t index = full.index[variable] ? full.index[variable][l] : full.uniform[variable];
      const double v = sign * (t.v ? t.v[0] : static_cast<double>(t.i[0])), b = t.b ? t.b[0] : 0;
      if (!open) least = std::max(least, v - b);
      if (v > best) {
        best = v;
        chosen = index;
      }
      reaches.emplace_back(v + b, index);
    }
  });
  const auto certain = [](int64_t index) { return Outcome{double(index), double(index), double(index)}; };
  std::vector<Outcome> list = {certain(chosen)};
  for (const auto& [far, index] : reaches)
    if (far >= least && index != chosen) list.push_back(certain(index));
  return list;
}

}  // namespace assay::contract
