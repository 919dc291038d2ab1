#include "judge/diagnose.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "trial/random.h"

namespace assay::judge {

using contract::Defect;

namespace {

constexpr double kMaxWork = 4e5;     // terms of sums in one simulation
constexpr std::size_t kMost = 1536;  // elements compared
constexpr double kSure = 0.85;       // correlation from which element by element counts as a match
constexpr double kLikely = 0.65;     // the same, where the order of additions decides the details
constexpr double kNonfinite = 60;    // what a NaN or infinity counts as, compressed

// Errors over many orders of magnitude, made comparable.
double compressed(double z) {
  return std::isfinite(z) ? std::asinh(z) : kNonfinite;
}

// How far a result is from the correctly rounded one: the rounding that every kernel shares is no evidence.
double departure(const Element& element, double stored) {
  if (!(element.scale > 0)) return std::isfinite(stored) == std::isfinite(element.value) ? 0 : kNonfinite;
  return compressed((stored - element.rounded) / element.scale);
}

// The worst elements and as many at random, within the work that simulation may cost.
std::vector<const Element*> choose(const Measured& measured) {
  std::vector<const Element*> all;
  for (const Element& element : measured.elements) {
    if (!(element.flags & contract::kUnspecified)) all.push_back(&element);
  }
  std::stable_sort(all.begin(), all.end(), [](const Element* a, const Element* b) {
    return std::abs(departure(*a, a->stored)) > std::abs(departure(*b, b->stored));
  });
  trial::Random random(all.size());
  for (std::size_t i = kMost / 2; i + 1 < all.size(); ++i) {
    std::swap(all[i], all[static_cast<std::size_t>(
                          random.between(static_cast<int64_t>(i), static_cast<int64_t>(all.size()) - 1))]);
    if (i > kMost) break;
  }
  // Half from either part, as far as the work allows.
  std::vector<const Element*> chosen;
  double work = 0;
  for (std::size_t i = 0; i < std::min(all.size(), kMost / 2) && work < kMaxWork; ++i) {
    for (const std::size_t at : {i, i + kMost / 2}) {
      if (at >= all.size()) continue;
      chosen.push_back(all[at]);
      work += all[at]->terms;
    }
  }
  return chosen;
}

struct Comparison {
  double correlation = 0, explained = 0;
  double profile_distance = 1e9;  // of error sizes by sum length, in factors of two
  double coherence_distance = 0;  // of how much of the errors each row shares
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

Comparison compare(const std::vector<const Element*>& elements, const std::vector<double>& simulated,
                   int64_t columns) {
  Coherence kernel_rows, defect_rows;
  double kk = 0, km = 0, mm = 0, rest = 0;
  std::map<int, std::array<double, 3>> profile;  // by decade of terms: energies of both, and how many
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Element& element = *elements[i];
    const double k = departure(element, element.stored), m = departure(element, simulated[i]);
    const double sign = element.value < 0 ? -1 : 1;
    kernel_rows.add(element.at / columns, sign * k);
    defect_rows.add(element.at / columns, sign * m);
    kk += k * k;
    km += k * m;
    mm += m * m;
    rest += (k - m) * (k - m);
    auto& group = profile[static_cast<int>(2 * std::log10(element.terms))];
    group[0] += k * k;
    group[1] += m * m;
    group[2] += 1;
  }
  Comparison comparison;
  if (kk > 0 && mm > 0) comparison.correlation = km / std::sqrt(kk * mm);
  if (kk > 0) comparison.explained = 1 - rest / kk;
  double distance = 0, weight = 0;
  for (const auto& [decade, group] : profile) {
    if (group[0] <= 0 || group[1] <= 0) continue;
    distance += group[0] * std::abs(std::log2(std::sqrt(group[0] / group[1])));
    weight += group[0];
  }
  if (weight > 0) comparison.profile_distance = distance / weight;
  comparison.coherence_distance = std::abs(kernel_rows.value() - defect_rows.value());
  return comparison;
}

// Sums in another order have other errors of the same size.
bool depends_on_order(const Defect& defect) {
  return defect.accumulator || defect.partials || defect.one_pass_variance;
}

}  // namespace

std::optional<Diagnosis> diagnose(const contract::Reference& reference, const contract::Bindings& bindings,
                                  const Measured& measured) {
  if (!reference.is_formula()) return std::nullopt;
  const std::vector<const Element*> elements = choose(measured);
  if (elements.empty()) return std::nullopt;
  std::vector<int64_t> at;
  for (const Element* element : elements) at.push_back(element->at);
  std::optional<Diagnosis> best;
  double best_score = 0;
  for (const Defect& defect : contract::defects()) {
    if (!reference.applies(defect)) continue;
    const auto simulated = reference.simulate(bindings, measured.output, at, defect);
    if (!simulated) continue;
    const Comparison match = compare(elements, *simulated, std::max<int64_t>(1, measured.columns()));
    double score = 0;
    bool by_profile = false;
    const bool order = depends_on_order(defect);
    if (match.correlation >= (order ? kLikely : kSure) && match.explained > (order ? 0.3 : 0.6)) {
      score = 1 + match.explained;
    } else if (defect.one_pass_variance && match.profile_distance < 1.2 && match.coherence_distance < 0.3) {
      score =
          0.6 - 0.3 * match.profile_distance;  // how large its errors are depends on the order of the sums
      by_profile = true;
    } else if (order && !defect.one_pass_variance && match.profile_distance < 0.35 &&
               match.coherence_distance < 0.25) {
      score = 1 - match.profile_distance;
      by_profile = true;
    }
    if (score > best_score + 0.02) {  // equal matches: the more specific, listed first
      best_score = score;
      best = Diagnosis{&defect, match.correlation, match.explained, by_profile};
    }
  }
  return best;
}

}  // namespace assay::judge
