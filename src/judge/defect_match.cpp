// Diagnosis by simulation. The reference evaluates the formula again with one thing done wrong (a bf16
// accumulator, a dropped tail, a truncating store; candidates.cpp has the list), and the simulated errors are
// compared with the kernel's. The defect that explains them best gives the finding its kind and the words
// after "as if".
//
// What is compared is the departure: how far a result is from the correctly rounded exact value, in units of
// the element's rounding noise. Rounding that every kernel shares is thus no evidence. The comparison looks
// at the worst elements and at as many random ones, because a defect must also explain why the others are
// right. There are two kinds of match:
//
//   element by element   the defect leaves no freedom (a lost tail, one rounding): the same elements are off by
//                        the same amounts
//   by profile           the order of additions decides the details (a narrow accumulator): errors have the same
//                        size for sums of the same length, and the same bias
//
// Several tests reject a match by profile: rows that are all off to one side, which is another formula and
// not rounding; long sums that are correct where the defect would err; one single element that is far off.
// The thresholds, and the cases they were fitted to, are in thresholds.h.
#include "judge/defect_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/random.h"
#include "judge/candidates.h"
#include "judge/thresholds.h"

namespace assay::judge {

using reference::Defect;

namespace {

// Errors over many orders of magnitude, made comparable.
double compressed(double z) {
  return std::isfinite(z) ? std::asinh(z) : kNonfiniteDeparture;
}

// How far a result is from the correctly rounded one: the rounding that every kernel shares is no evidence.
double departure(const Element& element, double stored) {
  if (!(element.scale > 0))
    return std::isfinite(stored) == std::isfinite(element.value) ? 0 : kNonfiniteDeparture;
  return compressed((stored - element.rounded) / element.scale);
}

// Whether both results are off by about the same. Compressed, errors of any size agree in little but their
// sign.
bool are_alike(const Element& element, double simulated) {
  if (!std::isfinite(element.stored) || !std::isfinite(simulated))
    return std::isnan(element.stored) == std::isnan(simulated);
  const double kernel = element.stored - element.rounded, defect = simulated - element.rounded;
  return std::abs(kernel - defect) <=
         std::max(kAlike * std::max(std::abs(kernel), std::abs(defect)), element.scale);
}

// Elements to compare, and which of them were taken at random: the others are the worst.
struct Chosen {
  std::vector<const Element*> elements;
  std::vector<char> at_random;
};

// The worst elements and as many at random, within the work that simulation may cost.
Chosen choose(const Measured& measured, std::size_t most) {
  std::vector<std::pair<double, const Element*>> by_departure;
  for (const Element& element : measured.elements) {
    if (!(element.flags & reference::kUnspecified))
      by_departure.emplace_back(std::abs(departure(element, element.stored)), &element);
  }
  std::stable_sort(by_departure.begin(), by_departure.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<const Element*> all;
  all.reserve(by_departure.size());
  for (const auto& [off, element] : by_departure) all.push_back(element);
  Random random(all.size());
  for (std::size_t i = most / 2; i + 1 < all.size(); ++i) {
    std::swap(all[i], all[static_cast<std::size_t>(
                          random.between(static_cast<int64_t>(i), static_cast<int64_t>(all.size()) - 1))]);
    if (i > most) break;
  }
  // Half from either part, as far as the work allows.
  Chosen chosen;
  const bool whole = all.size() <= most / 2;
  double work = 0;
  for (std::size_t i = 0; i < std::min(all.size(), most / 2) && work < kSimulatedTerms; ++i) {
    for (const std::size_t at : {i, i + most / 2}) {
      if (at >= all.size()) continue;
      chosen.elements.push_back(all[at]);
      chosen.at_random.push_back(whole || at != i);
      work += all[at]->terms;
    }
  }
  return chosen;
}

constexpr double kFarApart = 1e9;  // sizes that cannot be compared

struct Comparison {
  double correlation = 0, explained = 0;
  double profile_distance = kFarApart;  // of error sizes by sum length, in factors of two
  double coherence_distance = 0;        // of how much of the errors each row shares
  double lean = 0;                      // of the kernel's rows: 1 all to one side
  double defect_row_lean = 0;           // of the defect's rows, to the side of the kernel's
  double rows = 0;
  double defect_lean = 0;       // of the defect's errors to or from zero: 1 all
  double other_lean = 0;        // how differently all errors lean to or from zero: 2 opposite
  double missing = 0;           // share of the defect's large errors that the kernel does not have
  double alike = 0;             // share of the elements off that are so by about the same
  double alike_large = 1;       // the same of those that either has far off
  bool one_of_many = false;     // the kernel is far off in a single element of several
  std::size_t independent = 0;  // elements that are off, or rows where a row's errors are one
};

// How much of the departures is common to their row: 0 independent, 1 all alike.
class Coherence {
 public:
  void add(int64_t row, double departure) {
    Row& r = rows_[row];
    r.sum += departure;
    r.squares += departure * departure;
    r.count += 1;
  }
  double value() const {
    double shared = 0, possible = 0;
    for (const auto& [row, r] : rows_) {
      if (r.count < 2) continue;
      shared += r.sum * r.sum - r.squares;
      possible += (r.count - 1) * r.squares;
    }
    return possible > 0 ? shared / possible : 0;
  }

 private:
  struct Row {
    double sum = 0, squares = 0, count = 0;
  };
  std::map<int64_t, Row> rows_;
};

// Whether the errors of a row are its values times one factor: then the row is one piece of evidence, not
// many.
class Factors {
 public:
  void add(int64_t row, const Element& element) {
    const double error = element.stored - element.rounded;
    if (error == 0 || !std::isfinite(error)) return;
    Row& r = rows_[row];
    r.ee += error * error;
    r.ev += error * element.value;
    r.vv += element.value * element.value;
    r.count += 1;
  }
  bool are_common() const {
    constexpr double kFewest = 3;  // elements: two always have a factor in common, nearly
    double common = 0, all = 0;
    for (const auto& [row, r] : rows_) {
      if (r.count < kFewest || !(r.vv > 0)) continue;
      common += r.count * r.ev * r.ev / (r.ee * r.vv);
      all += r.count;
    }
    return !(common < kCommonFactor * all);
  }
  std::size_t rows() const { return rows_.size(); }

 private:
  struct Row {
    double ee = 0, ev = 0, vv = 0, count = 0;
  };
  std::map<int64_t, Row> rows_;
};

// The typical size of errors: their mean where they are small, the geometric mean where they are large.
class Size {
 public:
  void add(double departure) {
    sum_ += std::abs(departure);
    count_ += 1;
  }
  static constexpr double kMost = 300;  // whose sinh is finite
  double value() const { return count_ > 0 ? std::sinh(std::min(sum_ / count_, kMost)) : 0; }
  double count() const { return count_; }

 private:
  double sum_ = 0, count_ = 0;
};

struct Sizes {
  Size kernel, defect;
};

Comparison compare(const Chosen& chosen, const std::vector<double>& simulated, int64_t columns) {
  const std::vector<const Element*>& elements = chosen.elements;
  Coherence kernel_rows, defect_rows;
  std::map<int64_t, std::pair<double, double>> row_sums;  // of the kernel, of the defect
  double kk = 0, km = 0, mm = 0, rest = 0, off = 0, alike = 0, far_off = 0, far_alike = 0;
  Factors factors;
  std::size_t kernel_off = 0, kernel_far = 0;
  double kernel_lean = 0, kernel_sum = 0, defect_lean = 0, defect_sum = 0, large = 0, missing = 0;
  std::map<int, Sizes> profile;  // by decade of terms
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Element& element = *elements[i];
    const double k = departure(element, element.stored), m = departure(element, simulated[i]);
    const double sign = element.value < 0 ? -1 : 1;
    kernel_rows.add(element.at / columns, sign * k);
    defect_rows.add(element.at / columns, sign * m);
    auto& [kernel_row, defect_row] = row_sums[element.at / columns];
    kernel_row += sign * k;
    defect_row += sign * m;
    kk += k * k;
    km += k * m;
    mm += m * m;
    rest += (k - m) * (k - m);
    kernel_lean += sign * k;
    kernel_sum += std::abs(k);
    defect_lean += sign * m;
    defect_sum += std::abs(m);
    if (chosen.at_random[i] && std::abs(m) > kLargeDeparture) {
      large += 1;
      missing += std::abs(k) < kVanished * std::abs(m);
    }
    if (k != 0 || m != 0) {
      const bool same = are_alike(element, simulated[i]),
                 far = std::max(std::abs(k), std::abs(m)) > kLargeDeparture;
      off += 1;
      alike += same;
      far_off += far;
      far_alike += far && same;
    }
    kernel_off += k != 0;
    kernel_far += std::abs(k) > kLargeDeparture;
    factors.add(element.at / columns, element);
    Sizes& sizes = profile[static_cast<int>(2 * std::log10(element.terms))];
    sizes.kernel.add(k);
    sizes.defect.add(m);
  }
  Comparison comparison;
  if (kk > 0 && mm > 0) comparison.correlation = km / std::sqrt(kk * mm);
  if (kk > 0) comparison.explained = 1 - rest / kk;
  double distance = 0, weight = 0;
  for (const auto& [decade, sizes] : profile) {
    const double kernel = sizes.kernel.value(), defect = sizes.defect.value();
    if (kernel <= 0 || defect <= 0) continue;
    distance += sizes.kernel.count() * std::abs(std::log2(kernel / defect));
    weight += sizes.kernel.count();
  }
  if (weight > 0) comparison.profile_distance = distance / weight;
  comparison.coherence_distance = std::abs(kernel_rows.value() - defect_rows.value());
  double leaning = 0, all = 0, defect_leaning = 0, defect_all = 0;
  for (const auto& [row, sums] : row_sums) {
    leaning += sums.first;
    all += std::abs(sums.first);
    defect_leaning += sums.second;
    defect_all += std::abs(sums.second);
  }
  comparison.rows = static_cast<double>(row_sums.size());
  if (all > 0) comparison.lean = std::abs(leaning) / all;
  if (defect_all > 0) comparison.defect_row_lean = std::copysign(1, leaning) * defect_leaning / defect_all;
  if (off > 0) comparison.alike = alike / off;
  comparison.one_of_many = kernel_far == 1 && elements.size() >= kLeastAgreeing;
  if (far_off > 0) comparison.alike_large = far_alike / far_off;
  if (large > 0) comparison.missing = missing / large;
  if (defect_sum > 0) comparison.defect_lean = std::abs(defect_lean) / defect_sum;
  if (kernel_sum > 0 && defect_sum > 0)
    comparison.other_lean = std::abs(kernel_lean / kernel_sum - defect_lean / defect_sum);
  comparison.independent = factors.are_common() ? factors.rows() : kernel_off;
  return comparison;
}

// Sums in another order have other errors of the same size.
bool depends_on_order(const Defect& defect) {
  return defect.accumulator || defect.partials || defect.one_pass_variance;
}

// Rows that are all off to one side, where the defect takes them up or down by chance, or by other amounts:
// the formula is another.
bool is_systematic(const Comparison& match) {
  if (match.rows >= kSystematicRows && match.lean > kSystematicLean && match.alike < kSystematicAlike)
    return true;
  const double chance = kDeviations * std::sqrt(2 / std::max(1.0, match.rows));
  return match.rows >= kSystematicRowsAtLeast && match.lean > kSystematicLeanAtLeast &&
         match.lean - match.defect_row_lean > std::max(kSystematicExcess, chance);
}

// The same elements are off by the same amounts.
bool matches_in_detail(const Comparison& match, Margins& margins) {
  const Condition conditions[] = {at_least(Gate::SureAlike, match.alike, kSureAlike),
                                  at_least(Gate::Sure, match.correlation, kSure),
                                  at_least(Gate::SureExplained, match.explained, kSureExplained)};
  return all_hold(conditions, margins);
}

// … as far as the order of additions leaves it open.
bool matches_in_likely_detail(const Comparison& match, Margins& margins) {
  const Condition conditions[] = {at_least(Gate::LikelyAlike, match.alike, kLikelyAlike),
                                  at_least(Gate::LikelyAlikeLarge, match.alike_large, kLikelyAlikeLarge),
                                  at_least(Gate::Likely, match.correlation, kLikely),
                                  at_least(Gate::LikelyExplained, match.explained, kLikelyExplained)};
  return all_hold(conditions, margins);
}

// How well a defect explains the errors; 0: it does not.
double score_of(const Defect& defect, const Comparison& match, bool& by_profile, Margins& margins) {
  const bool order = depends_on_order(defect);
  by_profile = false;
  // A sum that stops growing loses about the same in any order.
  if (order && !defect.one_pass_variance && match.independent >= kIndependent &&
      match.defect_lean > kStopsGrowing && match.alike < kStopsAlike)
    return 0;
  // Narrow sums err wherever they are long.
  if (order && !defect.one_pass_variance && match.missing > kMissing) return 0;
  if (order ? matches_in_likely_detail(match, margins)
            : match.independent >= kLeastAgreeing && matches_in_detail(match, margins))
    return 1 + match.explained;
  // One rounding of a sum has a size, whatever its sign: a reciprocal may be what is rounded.
  if (!order && (!defect.reduced || match.independent < kLeastAgreeing)) return 0;
  const Condition coherent = at_most(Gate::Coherence, match.coherence_distance, kCoherence);
  by_profile = coherent.holds;
  // How large the errors of one pass are depends on how it adds; that they take a row up or down by
  // chance does not.
  if (defect.one_pass_variance) {
    const Condition conditions[] = {coherent,
                                    at_most(Gate::OnePassDistance, match.profile_distance, kOnePassDistance)};
    return match.lean < kOnePassLean && all_hold(conditions, margins)
               ? kOnePassScore - kOnePassScorePerDistance * match.profile_distance
               : 0;
  }
  // And to the sides that the terms make likely.
  if (is_systematic(match) || match.one_of_many) return 0;
  const double other_lean = match.independent >= kIndependent ? match.other_lean : 0;
  const Condition conditions[] = {
      coherent, at_most(Gate::Missing, match.missing, kMissing),
      at_most(Gate::OtherLean, other_lean, kOtherLean),
      defect.only_sum < 0
          ? at_most(Gate::ProfileDistance, match.profile_distance, kProfileDistance)
          // One sum of several is easily the wrong one.
          : at_most(Gate::ProfileDistanceOfOne, match.profile_distance, kProfileDistanceOfOne)};
  return all_hold(conditions, margins) ? 1 - match.profile_distance : 0;
}

// Elements of a vector have no row in common.
int64_t row_length(const Measured& measured) {
  return measured.extents.size() > 1 ? std::max<int64_t>(1, measured.columns()) : 1;
}

std::vector<int64_t> places(const std::vector<const Element*>& elements) {
  std::vector<int64_t> at;
  for (const Element* element : elements) at.push_back(element->at);
  return at;
}

// Results that are not finite, and are not so either when a sound kernel is simulated, are evidence for no defect: every simulation has them,
// that of the first in the list as well as that of the right one. Everything else of `measured`.
Measured without_shared_overflow(const reference::Reference& reference, const contract::Bindings& bindings,
                                 const Measured& measured) {
  std::vector<const Element*> nonfinite;
  for (const Element& element : measured.elements)
    if (!std::isfinite(element.stored) && std::isfinite(element.value)) nonfinite.push_back(&element);
  if (nonfinite.empty()) return measured;
  const auto sound = reference.simulate(bindings, measured.output, places(nonfinite), {});
  if (!sound) return measured;
  std::set<const Element*> shared;
  for (std::size_t i = 0; i < nonfinite.size(); ++i)
    if (!std::isfinite((*sound)[i])) shared.insert(nonfinite[i]);
  Measured rest = measured;
  rest.elements.clear();
  for (const Element& element : measured.elements)
    if (!shared.contains(&element)) rest.elements.push_back(element);
  return rest;
}

}  // namespace

std::optional<DefectMatch> match_defect(const reference::Reference& reference,
                                        const contract::Bindings& bindings, const Measured& all,
                                        std::span<const Kind> hints, Margins& margins) {
  if (!reference.is_formula()) return std::nullopt;
  const Measured measured = without_shared_overflow(reference, bindings, all);
  std::optional<DefectMatch> best;
  double best_score = 0;
  const auto try_all = [&](const std::vector<Candidate>& list, std::size_t most) {
    const Chosen chosen = choose(measured, most);
    if (chosen.elements.empty()) return;
    const std::vector<int64_t> at = places(chosen.elements);
    for (const Candidate& candidate : list) {
      const auto simulated = candidate.inputs.empty()
                                 ? reference.simulate(bindings, measured.output, at, candidate.defect)
                                 : reference.simulate(with_narrow_inputs(bindings, candidate),
                                                      measured.output, at, candidate.defect);
      if (!simulated) continue;
      const Comparison match = compare(chosen, *simulated, row_length(measured));
      bool by_profile = false;
      const double score = score_of(candidate.defect, match, by_profile, margins);
      if (score > best_score + kBetter) {  // equal matches: the more specific, listed first
        best_score = score;
        best = DefectMatch{candidate.defect, candidate.description, match.correlation, match.explained,
                           by_profile};
      }
      if (best_score > kExactMatch) return;  // to the bit, or nearly
    }
  };
  try_all(ordered(everywhere(reference), hints), kCompared);
  // What one pass does to a variance, any error of that sum alone would do too.
  const bool one_pass = best && best->defect.one_pass_variance;
  if (best_score < kMatched) try_all(of_inputs(bindings), kComparedBriefly);
  if (best_score < kMatched) try_all(cut_short(reference, bindings), kComparedBriefly);
  for (const contract::DType narrow : {contract::DType::bf16, contract::DType::f16}) {
    if (best_score < kMatched && !one_pass)
      try_all(ordered(in_one_sum(reference, measured.output, contract::info(narrow).name), hints),
              kComparedBriefly);
    if (best_score < kMatched) try_all(in_one_value(reference, measured.output, narrow), kComparedBriefly);
  }
  return best;
}

bool exceeds_every_rounding(const reference::Reference& reference, const contract::Bindings& bindings,
                            const Measured& measured) {
  std::vector<reference::Site> sites = reference.values(measured.output);
  if (sites.empty() || sites.size() > kMostSites) return false;
  // The result itself, rounded once more, is no value on the way: the last one of the output's own
  // definition.
  auto last = sites.begin();
  for (auto site = sites.begin(); site != sites.end(); ++site) {
    if (site->definition == sites.front().definition && site->value > last->value) last = site;
  }
  sites.erase(last);
  const std::vector<const Element*> elements = choose(measured, kComparedBriefly).elements;
  std::vector<double> reach(elements.size(), 0);
  for (const reference::Site& site : sites) {
    Defect narrow;
    narrow.intermediates = contract::DType::bf16;
    narrow.only_value = site.value;
    narrow.value_of = site.definition;
    const auto simulated = reference.simulate(bindings, measured.output, places(elements), narrow);
    if (!simulated) return false;
    for (std::size_t i = 0; i < reach.size(); ++i)
      reach[i] += std::abs((*simulated)[i] - elements[i]->rounded);
  }
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < reach.size(); ++i) {
    const double error = std::abs(elements[i]->error);
    if (!std::isfinite(error) || error <= kNoise * elements[i]->scale) continue;
    beyond += error > kBeyondRounding * reach[i] + kBeyondNoise * elements[i]->scale;
  }
  return beyond >= kLeastBeyond;
}

double size_beside_bf16(const reference::Reference& reference, const contract::Bindings& bindings,
                        const Measured& measured) {
  const std::vector<const Element*> elements = choose(measured, kComparedBriefly).elements;
  Defect narrow;
  narrow.accumulator = contract::DType::bf16;
  narrow.intermediates = contract::DType::bf16;
  const auto simulated = reference.simulate(bindings, measured.output, places(elements), narrow);
  if (!simulated) return 1;
  Sizes sizes;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    sizes.kernel.add(departure(*elements[i], elements[i]->stored));
    sizes.defect.add(departure(*elements[i], (*simulated)[i]));
  }
  return sizes.kernel.value() / sizes.defect.value();
}

}  // namespace assay::judge
