#include "judge/diagnose.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "trial/random.h"

namespace assay::judge {

using contract::Defect;

namespace {

constexpr double kMaxWork = 1.5e6;   // terms of sums in one simulation
constexpr std::size_t kMost = 1536;  // elements compared
constexpr double kSure = 0.65;       // correlation from which element by element counts as a match
constexpr double kNonfinite = 60;    // what a NaN or infinity counts as, compressed

// Errors over many orders of magnitude, made comparable.
double compressed(double z) {
  return std::isfinite(z) ? std::asinh(z) : kNonfinite;
}

// The worst elements and as many at random, within the work that simulation may cost.
std::vector<const Element*> choose(const Measured& measured) {
  std::vector<const Element*> all;
  for (const Element& element : measured.elements) {
    if (!(element.flags & contract::kUnspecified)) all.push_back(&element);
  }
  std::stable_sort(all.begin(), all.end(), [](const Element* a, const Element* b) {
    return compressed(std::abs(a->z)) > compressed(std::abs(b->z));
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
  double correlation = 0, explained = 0, profile_distance = 1e9;
};

Comparison compare(const std::vector<const Element*>& elements, const std::vector<double>& simulated) {
  double kk = 0, km = 0, mm = 0, rest = 0;
  std::map<int, std::array<double, 3>> profile;  // by decade of terms: energies of both, and how many
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Element& element = *elements[i];
    const double sigma = element.z != 0 ? element.error / element.z : 0;
    const double error = simulated[i] - element.value;
    const double z = sigma > 0 ? error / sigma : (error == 0 ? 0 : std::copysign(1e6, error));
    const double k = compressed(element.z), m = compressed(z);
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
  return comparison;
}

// Sums in another order have other errors of the same size.
bool depends_on_order(const Defect& defect) {
  return defect.accumulator || defect.partials;
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
    const Comparison match = compare(elements, *simulated);
    double score = 0;
    bool by_profile = false;
    if (match.correlation >= kSure && match.explained > 0.3) {
      score = 1 + match.explained;
    } else if (depends_on_order(defect) && match.profile_distance < 0.35) {
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
