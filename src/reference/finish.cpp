// From accumulated terms to a value and its budget: the last step of a reduction.
//
// A sum's budget has three parts: the errors of its terms, passed on; the rounding of the additions, in any
// order; and the common mode, the effect of an error that all terms share (the mean under a variance). The
// last is computed, not assumed: the shared value is moved by its own budget, up and down, and the sum is
// evaluated again. Sums about a mean, tensor cores and fp8 have rules of their own (docs/numerics.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/evaluation.h"

namespace assay::reference {
namespace {

constexpr double kFp8Sum = 0x1p-13;  // unit of a 14-bit running sum
// Times by which the sizes that products are aligned by exceed their own: from there on most bits are lost one way. Chosen.
constexpr double kMuchLarger = 2;
constexpr double kManyTerms =
    64;  // from which roundings that are alike add up to more than chance allows. Chosen

}  // namespace

void Evaluator::set_shift(int definition_id, const std::vector<int>& nodes, Shift shift) {
  for (const int node : nodes)
    shifts_[static_cast<std::size_t>(definition_id)][static_cast<std::size_t>(node)] = shift;
}

// What the error of a value that all terms share does to the sum, by moving it.
// For a mean under a variance, for example, that is nothing at first order.
void Evaluator::common_mode(Batch& batch, const int64_t* elements, Accumulator& total) {
  const bool values_only = batch.values_only;
  const std::vector<char>& suppressed = suppressed_[static_cast<std::size_t>(batch.definition)];
  for (const std::vector<int>& group : evaluation_.common_loads(batch.definition)) {
    const bool inexact =
        std::ranges::any_of(group, [&](int node) { return suppressed[static_cast<std::size_t>(node)] != 0; });
    if (!inexact) continue;
    batch.values_only = true;
    double* slope = arena_.get<double>(batch.n);  // twice what a first-order change of the sum would be
    std::fill_n(slope, batch.n, 0.0);
    for (const Shift shift : {Shift::Up, Shift::Down, Shift::Deviation}) {
      const Arena::Mark mark = arena_.mark();
      set_shift(batch.definition, group, shift);
      Accumulator moved = Accumulator::make(arena_, batch.n, Reduce::Sum);
      reduce_into(batch, elements, moved);
      for (int l = 0; l < batch.n; ++l) {
        const double change = (moved.sum[l] - total.sum[l]) + (moved.low_part[l] - total.low_part[l]);
        const double most = std::isnan(change) ? kInf : std::abs(change);
        if (shift != Shift::Deviation) slope[l] += shift == Shift::Up ? change : -change;
        if (shift == Shift::Deviation)
          total.variance[l] += most * most;
        else if (shift == Shift::Up)
          total.partial[l] = most;
        else
          total.bound[l] += std::max(total.partial[l], most);
      }
      arena_.release(mark);
    }
    set_shift(batch.definition, group, Shift::Exact);
    batch.values_only = values_only;
    if (is_variance(definition(batch.definition))) note_centre(batch, total, slope);
  }
}

// Whether a sum of (a - m)² is about the mean of a: then the sum does not change, at first order, when m
// moves. What it is about zero decides how well it can be computed.
void Evaluator::note_centre(Batch& batch, Accumulator& total, const double* slope) {
  const Definition& made = definition(batch.definition);
  const std::vector<Shift> kept = shifts_[static_cast<std::size_t>(batch.definition)];
  std::ranges::fill(shifts_[static_cast<std::size_t>(batch.definition)], Shift::None);
  const Lanes mean = eval(batch, deviation(made).b);
  shifts_[static_cast<std::size_t>(batch.definition)] = kept;
  if (evaluation_.failed() || !mean.b) return;
  if (!total.about_zero) {
    total.about_zero = arena_.get<double>(batch.n);
    std::fill_n(total.about_zero, batch.n, 0.0);
  }
  for (int l = 0; l < batch.n; ++l) {
    const double size = total.count[l] * std::abs(mean.v[l]);  // of the terms about zero, at most about
    const bool centred = std::abs(slope[l]) <= 4 * mean.b[l] * 1e-9 * size + 1e-12 * total.sum[l];
    if (centred) total.about_zero[l] = total.sum[l] + size * std::abs(mean.v[l]);
  }
}

const Node& Evaluator::deviation(const Definition& made) {
  const Node& square = made.nodes[static_cast<std::size_t>(made.body)];
  return made.nodes[static_cast<std::size_t>(square.a)];
}

// What the elements were before this assignment.
Lanes Evaluator::previous(Batch& batch, const int64_t* elements) {
  const Definition& made = definition(batch.definition);
  const Source& source = evaluation_.compiled.sources[static_cast<std::size_t>(made.previous)];
  Offsets offset;
  offset.at = arena_.get<int64_t>(batch.n);
  std::copy_n(elements, batch.n, offset.at);
  Node node;
  node.type = made.type();
  return source.is_input ? load_input(batch, source, offset)
                         : load_definition(batch, made.body, node, source.definition, offset);
}

void Evaluator::add_previous(Batch& batch, const int64_t* elements, Accumulator& total) {
  const Definition& made = definition(batch.definition);
  if (made.previous < 0) return;
  const Lanes value = previous(batch, elements);
  if (evaluation_.failed()) return;
  if (!adds_up(made.reduce)) return offer(total, value, batch.n, nullptr, made.reduce, nullptr, 0, false);
  if (!value.v) return add_integers(total, value, batch.n, nullptr);
  const Defect* defect = evaluation_.simulated ? &evaluation_.defect_of(batch.definition) : nullptr;
  SumRules rules{batch.values_only, defect, evaluation_.precision.dtype, 0};
  add_terms(total, value, batch.n, nullptr, rules);
}

void Evaluator::reduce(Batch& batch, const int64_t* elements, const Elements& out) {
  const Definition& made = definition(batch.definition);
  const auto& common = evaluation_.common_loads(batch.definition);
  Accumulator total = Accumulator::make(arena_, batch.n, made.reduce);
  if (evaluation_.simulated && one_pass_variance(batch, total)) return finish(batch, total, out);
  const bool shares = !common.empty() && !evaluation_.simulated;
  if (shares)
    for (const std::vector<int>& group : common) {
      set_shift(batch.definition, group, Shift::Exact);
      for (const int node : group)
        suppressed_[static_cast<std::size_t>(batch.definition)][static_cast<std::size_t>(node)] = 0;
    }
  if (!shares) add_previous(batch, elements, total);
  reduce_into(batch, elements, total);
  if (shares) {
    common_mode(batch, elements, total);
    for (const std::vector<int>& group : common) set_shift(batch.definition, group, Shift::None);
    add_previous(batch, elements, total);
  }
  if (!evaluation_.failed()) finish(batch, total, out);
}

// Sum of (a - m)² as a sum of a² less n m²: what a one-pass kernel does. In parts: both sums by a tree or the
// like, so that hardly more than the last roundings are left.
bool Evaluator::one_pass_variance(Batch& batch, Accumulator& total) {
  const Definition& made = definition(batch.definition);
  if (!evaluation_.simulated->one_pass_variance || !is_variance(made)) return false;
  const Node& difference = deviation(made);
  const bool in_parts = evaluation_.simulated->partial_terms > 0;
  double* sums = arena_.get<double>(batch.n);
  std::fill_n(sums, batch.n, 0.0);
  int64_t terms = 0;
  SumRules rules{false, evaluation_.simulated, evaluation_.precision.dtype, 0};
  const DType dtype = evaluation_.precision.dtype;
  const auto add_square = [&](Batch& at) {
    const Lanes x = eval(at, difference.a);
    Lanes squared = x;
    squared.v = arena_.get<double>(at.n);
    for (int l = 0; l < at.n; ++l) {
      squared.v[l] = rounded(dtype, x.v[l] * x.v[l]);
      sums[l] += x.v[l];
      if (in_parts) total.sum[l] += squared.v[l];
    }
    if (!in_parts) add_terms(total, squared, at.n, nullptr, rules);
    ++terms;
  };
  const std::function<void(std::size_t)> nest = [&](std::size_t depth) {
    if (depth == made.reduced.size()) return add_square(batch);
    const Bounds range = bounds(batch, made.reduced[depth]);
    for (int64_t k = range.low; k < range.high && !evaluation_.failed(); ++k) {
      const Arena::Mark mark = arena_.mark();
      batch.uniform[made.reduced[depth]] = k;
      nest(depth + 1);
      arena_.release(mark);
    }
  };
  nest(0);
  const auto count = static_cast<double>(terms);
  const Lanes mean = eval(batch, difference.b);
  for (int l = 0; l < batch.n; ++l) {
    const double m = in_parts ? rounded(dtype, rounded(dtype, sums[l]) / count) : mean.v[l];
    const double product = rounded(dtype, rounded(dtype, m * m) * count);
    if (in_parts) {
      total.sum[l] = rounded(dtype, total.sum[l]);
      total.count[l] = count;
    }
    total.sum[l] = std::max(0.0, rounded(dtype, total.sum[l] - product));
  }
  return true;
}

bool Evaluator::is_variance(const Definition& made) {
  if (!adds_up(made.reduce) || made.type() != Type::Float || made.filter >= 0 || made.is_scatter())
    return false;
  const Node& square = made.nodes[static_cast<std::size_t>(made.body)];
  if (square.op != Op::Pow || !square.literal_exponent || square.integer != 2) return false;
  const Node& difference = deviation(made);
  if (difference.op != Op::Sub) return false;
  uint64_t loops = 0;
  for (const int variable : made.reduced) loops |= uint64_t{1} << variable;
  const uint64_t minuend = made.nodes[static_cast<std::size_t>(difference.a)].indices;
  const uint64_t subtrahend = made.nodes[static_cast<std::size_t>(difference.b)].indices;
  return (minuend & loops) != 0 && (subtrahend & loops) == 0;
}

void Evaluator::finish(const Batch& batch, const Accumulator& total, const Elements& out) {
  const Definition& made = definition(batch.definition);
  for (int l = 0; l < batch.n; ++l) {
    out.terms[l] = std::max(1.0, total.count[l]);
    out.f[l] = total.flags[l];
    out.b[l] = out.s[l] = 0;
    if (made.reduce == Reduce::Prod)
      finish_product(total, l, out);
    else if (!adds_up(made.reduce))
      finish_extreme(made, total, l, out);
    else if (made.type() != Type::Float)
      finish_integer_sum(made, total, l, out);
    else
      finish_sum(batch, total, l, out);
  }
}

void Evaluator::finish_extreme(const Definition& made, const Accumulator& total, int l, const Elements& out) {
  const bool largest = made.reduce == Reduce::Max || made.reduce == Reduce::ArgMax;
  const double sign = largest ? 1 : -1;
  const bool chooses = made.reduce == Reduce::ArgMax || made.reduce == Reduce::ArgMin;
  if (total.count[l] == 0 && (chooses || made.type() != Type::Float))
    return evaluation_.fail(made.place,
                            fmt::format("the {} of no elements is not defined; guard it with `if`",
                                        chooses   ? to_string(made.reduce)
                                        : largest ? "max"
                                                  : "min"));
  const double v = total.sum[l];
  out.magnitude[l] = std::abs(v);
  const double far = sign * std::max(sign * total.high[l], sign * total.squares[l]);
  const bool open = total.bound[l] > 0 && std::isfinite(v);
  if (chooses) {
    out.v[l] = std::bit_cast<double>(total.which[l]);
    if (!(open || (made.any_of_equals && !std::isnan(v))) || sign * total.high[l] < sign * total.low[l])
      return;
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

// A product of n factors: n - 1 roundings, and in any order what underflows may be multiplied by all factors above 1.
void Evaluator::finish_product(const Accumulator& total, int l, const Elements& out) const {
  const Precision& precision = evaluation_.precision;
  const double v = evaluation_.simulated ? rounded(precision.dtype, total.sum[l]) : total.sum[l];
  const double steps = std::max(0.0, total.count[l] - 1), lost = steps * precision.eta * total.magnitude[l];
  out.v[l] = v;
  out.magnitude[l] = std::abs(v);
  if (evaluation_.simulated || !std::isfinite(v)) return;
  const double b =
      total.bound[l] + steps * precision.u * (std::abs(v) + total.bound[l]) + (v == 0 ? 0 : lost);
  const double s = total.variance[l] + steps * kRms * kRms * precision.u * precision.u * v * v +
                   (v == 0 ? 0 : lost * lost);
  out.b[l] = std::isnan(b) ? kInf : b;
  out.s[l] = std::isnan(s) ? kInf : s;
  if (total.magnitude[l] > precision.max) out.f[l] |= kMayOverflow;
}

void Evaluator::finish_integer_sum(const Definition& made, const Accumulator& total, int l,
                                   const Elements& out) {
  const auto value = static_cast<int64_t>(total.integer[l]);
  if (value != total.integer[l]) evaluation_.fail(made.place, "a sum of integers does not fit in 64 bits");
  out.v[l] = std::bit_cast<double>(value);
  out.b[l] = total.bound[l];
  out.magnitude[l] = total.magnitude[l];
}

void Evaluator::finish_sum(const Batch& batch, const Accumulator& total, int l, const Elements& out) {
  const Definition& made = definition(batch.definition);
  const Precision& precision = evaluation_.precision;
  const double n = total.count[l];
  const bool mean = made.reduce == Reduce::Mean;
  if (mean && n == 0)
    return evaluation_.fail(made.place, "the mean of no elements is not defined; guard it with `if`");
  if (evaluation_.simulated) {
    out.v[l] = simulated_sum(total, l, mean, evaluation_.defect_of(batch.definition));
    out.magnitude[l] = std::abs(out.v[l]);
    return;
  }
  double v = std::isfinite(total.sum[l]) ? total.sum[l] + total.low_part[l] : total.sum[l];
  const double size = total.magnitude[l], u = precision.u;
  double b = total.bound[l], s = total.variance[l];
  if (size > 0) {
    b += n * precision.added;
    s += n * precision.added * n * precision.added;
  }
  if (n > 1) {
    // Any order: n - 1 additions, none larger than the sum of all sizes. As
    // statistics: the walk of partial sums, in a random order or in that of the loops.
    b += (n - 1) * u * (size + b);
    const double random = n * v * v / 3 + n * total.squares[l] / 6 + v * v;
    s += kRms * kRms * u * u * std::max(random, total.walk[l]);
    if (total.about_zero && total.about_zero[l] > 0) add_variance(total, l, b, s);
    const double mean_term = v / n;
    const double spread = total.squares[l] / n - mean_term * mean_term;
    // Equal terms: every addition in a binade loses the same. Terms of a few ulps of the sum, beside a large
    // one: each is rounded to a whole number of ulps, and most of them the same way.
    const double small = std::max(0.0, size - std::sqrt(total.squares[l]));
    const bool equal = spread <= 16 * u * u * v * v, swamped = small <= 8 * n * u * std::abs(v);
    if (n >= kManyTerms && (equal || swamped)) {
      const double lost = equal ? n * u * std::abs(v) : std::min(small, n * u * std::abs(v));
      s = std::max(s, 0.25 * lost * lost);
      out.f[l] |= kCoherent;
    }
    if (n >= kManyTerms && total.lost[l] * total.lost[l] > s) {
      s = std::max(s, 0.25 * total.lost[l] * total.lost[l]);
      out.f[l] |= kCoherent;
    }
    if (evaluation_.options.tensor_cores && is_product(made))
      add_tensor_core(total, l, is_fp8_product(evaluation_.contract, evaluation_.compiled, made), v, b, s,
                      out.f[l]);
  }
  // Where only an exp overflows, shifting it does not.
  if (std::max(size, total.weighted[l]) > precision.max && std::isfinite(v) && !made.overflow_is_avoidable)
    out.f[l] |= kMayOverflow;
  out.magnitude[l] = mean ? size / n : size;
  if (mean) {
    v /= n;
    b = b / n + 2 * u * std::abs(v) + precision.eta;
    s = s / (n * n) + kRms * kRms * 2 * u * u * v * v + precision.eta * precision.eta;
  }
  out.v[l] = v;
  const bool finite = std::isfinite(v);
  // Welford's running mean makes NaN of an infinity as soon as it moves on: infinity less infinity.
  if (made.is_centre && std::isinf(v)) out.f[l] |= kMayOverflow;
  out.b[l] = !finite ? 0 : std::isnan(b) ? kInf : b;
  out.s[l] = !finite ? 0 : std::isnan(s) ? kInf : s;
}

bool Evaluator::is_product(const Definition& made) {
  return made.nodes[static_cast<std::size_t>(made.body)].op == Op::Mul;
}

bool Evaluator::is_fp8_product(const Contract& contract, const CompiledFormula& compiled,
                               const Definition& made) {
  if (!is_product(made)) return false;
  const Node& product = made.nodes[static_cast<std::size_t>(made.body)];
  return std::ranges::all_of(std::array{product.a, product.b}, [&](int id) {
    const Node& operand = made.nodes[static_cast<std::size_t>(id)];
    if (operand.op != Op::Load) return false;
    const Source& source = compiled.sources[static_cast<std::size_t>(operand.ref)];
    if (!source.is_input) return false;
    const DType dtype = contract.tensors[static_cast<std::size_t>(source.tensor)].dtype;
    return dtype == DType::e4m3 || dtype == DType::e5m2;
  });
}

// Hopper: products in groups of 16, aligned to the largest and cut off two bits
// below its last, the running sum rounded toward zero. What products are aligned by may be larger than they are (least_normals);
// then most of them lose the same way. fp8: groups of 32, a running sum of 14 bits; a sound kernel moves it to f32 every 128
// terms.
void Evaluator::add_tensor_core(const Accumulator& total, int l, bool fp8, double v, double& b, double& s,
                                uint8_t& flags) const {
  const double u = evaluation_.precision.u, n = total.count[l], groups = std::ceil(n / 16);
  const bool is_aligned_by_more = total.aligned[l] > kMuchLarger * total.magnitude[l];
  const double size = std::max(total.magnitude[l], total.aligned[l]),
               squares = std::max(total.squares[l], total.aligned_squares[l]);
  const double one_way = is_aligned_by_more ? size : std::abs(v);
  if (is_aligned_by_more) flags |= kCoherent;
  b += groups * 2 * u * size + n * u * size;
  const double rms = 2 * 0.849 * u;
  s += rms * rms * groups * (v * v / 3 + squares / 6) + std::pow(0.36 * 2 * u * groups * one_way, 2);
  if (!fp8) return;
  const double steps = std::ceil(std::min(n, 128.0) / 32), coarse = kFp8Sum;
  b += 2 * steps * coarse * size;
  s += std::pow(0.849 * coarse, 2) * steps / 3 * std::max(v * v / std::ceil(n / 128), squares) +
       std::pow(0.36 * coarse * steps * one_way, 2);
}

// A sum of squares about the mean by other sound algorithms than the two passes of the formula.
// Welford: the running mean m_k carries its own roundings, u |m_k| each, at most k / 2 of them together; each
// enters the sum through 2 (x_k - m_k). With Σ|x_k - m_k| <= √(2 n M) that is 2 n u √(X M) at most, X and M
// the sum of squares about zero and about the mean: relative to M, 2 n u κ. As statistics the roundings
// are independent of the deviations and n cancels: 0.425 u √(X M), in simulation 0.2 to 0.45.
// Merged parts and trees are better. Shifting by an element that is a deviation off doubles what is added up.
// The difference of two sums about zero errs by u X, which is κ times as much and not among these.
void Evaluator::add_variance(const Accumulator& total, int l, double& b, double& s) const {
  const double u = evaluation_.precision.u, n = total.count[l];
  const double squares = total.about_zero[l], value = std::max(0.0, total.sum[l]);
  const double product = squares * value;
  b += 2 * n * u * std::sqrt(product) + n * n * u * u * squares / 4;
  s += kRms * kRms * u * u * (product + n * value * value);
}

double Evaluator::simulated_sum(const Accumulator& total, int l, bool mean, const Defect& defect) const {
  const DType dtype = evaluation_.precision.dtype;
  double v = total.sum[l];
  if (defect.partials && total.partial_count[l] > 0)
    v = rounded(dtype, v + rounded(*defect.partials, total.partial[l]));
  if (mean)
    v = rounded(dtype, v / std::max(1.0, total.count[l] + static_cast<double>(defect.divisor_offset)));
  return defect.reduced ? rounded(*defect.reduced, v) : v;
}

}  // namespace assay::reference
