#include "judge/picture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "judge/masked.h"
#include "judge/measure.h"
#include "judge/sample.h"
#include "judge/thresholds.h"

namespace assay::judge {

using contract::Tensor;

namespace {

// All chosen.
constexpr int64_t kMostElements = 1 << 16;  // looked at for a picture
constexpr double kMostWork = 1e8;           // terms of sums evaluated for it, about
constexpr std::size_t kPictured = 64;       // elements that are looked at, however long their sums
constexpr double kLeastPictured = 256;      // elements that are looked at where sums are long
// Sums have different lengths where the longest has so many times the terms of the shortest.
// tests/judge/picture_test.cpp (Picture.OfARightResultIsCalm) has sums of 38 terms and of 2.
constexpr double kHitsVary = 1.5;

// What was measured, with the budget of each element.
struct Look {
  Measured measured;
  std::vector<double> sigma;
  std::vector<std::pair<std::size_t, evidence::ComparedText>>
      wrong;  // those not admitted, if they were asked for
};

Result<Look> look_at(const contract::Contract& contract, const reference::Reference& reference,
                     const contract::Bindings& bindings, const std::string& output, const Tensor& tensor,
                     const std::vector<int64_t>& elements, const Options& options, bool in_words = false) {
  const reference::BudgetOptions budget{.tensor_cores = options.tensor_cores, .threads = options.threads};
  auto expected = reference.expect(bindings, output, elements, budget);
  if (!expected) return expected.error();
  MeasureOptions how;
  how.rtol = contract.require.rtol;
  how.atol = contract.require.atol;
  how.accumulate = contract.reference.accumulate;
  Look look{measure(output, tensor, *expected, how), expected->sigma, {}};
  if (auto admitted = admit_masked(reference, bindings, tensor, budget, look.measured); !admitted) {
    return admitted.error();
  }
  if (!in_words) return look;
  const Gauge gauge(tensor, *expected, how);
  for (std::size_t i = 0; i < look.measured.elements.size(); ++i) {
    if (!look.measured.elements[i].admitted) look.wrong.emplace_back(i, text_of(gauge.compared(i)));
  }
  return look;
}

// As many elements as the work allows, knowing the length of the sums only after a first look.
Result<std::vector<int64_t>> affordable(const reference::Reference& reference,
                                        const contract::Bindings& bindings, const std::string& output,
                                        const Tensor& tensor, const Options& options) {
  std::vector<int64_t> elements = choose_elements(tensor, kMostElements, options.seed);
  if (elements.size() <= kPictured) return elements;
  std::vector<int64_t> probe;
  for (std::size_t i = 0; i < kProbeElements; ++i)
    probe.push_back(elements[i * (elements.size() - 1) / (kProbeElements - 1)]);
  const auto first = reference.expect(bindings, output, probe, {.threads = options.threads});
  if (!first) return first.error();
  const double terms = *std::max_element(first->terms.begin(), first->terms.end());
  const double most = std::max(kLeastPictured, kMostWork / std::max(1.0, terms));
  if (most < static_cast<double>(elements.size())) {
    elements = choose_elements(tensor, static_cast<int64_t>(most), options.seed);
  }
  return elements;
}

bool is_specified(const Element& element) {
  return !(element.flags & reference::kUnspecified);
}

// In units of the budget; what has no finite error, or should have none, is infinitely far.
double distance(const Element& element, double sigma) {
  if (element.error == 0 || element.stored == element.value ||
      (std::isnan(element.stored) && std::isnan(element.value))) {
    return 0;
  }
  if (!std::isfinite(element.error)) return element.admitted ? 0 : std::numeric_limits<double>::infinity();
  if (sigma > 0 && std::isfinite(sigma)) return element.error / sigma;
  return element.admitted ? 0 : std::numeric_limits<double>::infinity();
}

// An empty sum, say: there is nothing to round, and nothing was. It says nothing of how errors are spread.
bool has_nothing_to_say(const Element& element, double sigma) {
  return !(sigma > 0) && distance(element, sigma) == 0;
}

void paint_grid(Picture& picture, const Look& look) {
  const int64_t side = Picture::kSide;
  picture.grid_rows = static_cast<int>(std::min(picture.rows, side));
  picture.grid_columns = static_cast<int>(std::min(picture.columns, side));
  picture.grid.assign(
      static_cast<std::size_t>(picture.grid_rows) * static_cast<std::size_t>(picture.grid_columns),
      std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < look.measured.elements.size(); ++i) {
    const Element& element = look.measured.elements[i];
    if (!is_specified(element)) continue;
    const int64_t row = element.at / picture.columns * picture.grid_rows / picture.rows;
    const int64_t column = element.at % picture.columns * picture.grid_columns / picture.columns;
    float& cell = picture.grid[static_cast<std::size_t>(row * picture.grid_columns + column)];
    const auto size = static_cast<float>(std::abs(distance(element, look.sigma[i])));
    if (std::isnan(cell) || size > cell) cell = size;
  }
}

void count_bins(Picture& picture, const Look& look) {
  for (std::size_t i = 0; i < look.measured.elements.size(); ++i) {
    const Element& element = look.measured.elements[i];
    if (!is_specified(element) || !std::isfinite(element.value)) continue;
    if (has_nothing_to_say(element, look.sigma[i])) continue;
    double z = distance(element, look.sigma[i]);
    if (std::isinf(z) && element.error < 0) z = -z;
    const double bin = std::floor((z + Picture::kRange) / (2 * Picture::kRange) * Picture::kBins);
    ++picture.histogram[static_cast<std::size_t>(std::clamp(bin, -1.0, double{Picture::kBins}) + 1)];
  }
}

void choose_points(Picture& picture, const Look& look, uint64_t seed) {
  std::vector<std::size_t> wrong, right;
  for (std::size_t i = 0; i < look.measured.elements.size(); ++i) {
    const Element& element = look.measured.elements[i];
    if (!is_specified(element) || !std::isfinite(element.value) || !std::isfinite(element.error)) continue;
    if (has_nothing_to_say(element, look.sigma[i])) continue;
    (element.admitted ? right : wrong).push_back(i);
  }
  Random random(seed);
  const auto shuffle = [&](std::vector<std::size_t>& of) {
    for (std::size_t i = of.size(); i > 1; --i) {
      std::swap(of[i - 1], of[static_cast<std::size_t>(random.between(0, static_cast<int64_t>(i) - 1))]);
    }
  };
  shuffle(wrong);
  shuffle(right);
  // Half of the room for either; what one leaves, the other may take.
  const std::size_t room = Picture::kMostPoints;
  const std::size_t wrongs = std::min(wrong.size(), std::max(room / 2, room - std::min(room, right.size())));
  wrong.resize(wrongs);
  right.resize(std::min(right.size(), room - wrongs));
  right.insert(right.end(), wrong.begin(), wrong.end());
  double fewest = std::numeric_limits<double>::infinity(), most = 0;
  for (const std::size_t i : right) {
    const Element& element = look.measured.elements[i];
    picture.points.push_back({static_cast<float>(std::abs(element.value)),
                              static_cast<float>(std::abs(element.error)), static_cast<float>(look.sigma[i]),
                              static_cast<float>(element.terms), element.admitted});
    fewest = std::min(fewest, element.terms);
    most = std::max(most, element.terms);
  }
  picture.hits_vary = most > kHitsVary * std::max(1.0, fewest);
}

Sheet values_of(const std::string& name, const Tensor& tensor) {
  Sheet sheet{
      .name = name, .dtype = std::string(contract::info(tensor.dtype).name), .extents = tensor.extents};
  const int64_t take = std::min(tensor.count(), Sheet::kMostValues);
  sheet.is_cut = take < tensor.count();
  for (int64_t i = 0; i < take; ++i) {
    sheet.values.push_back(tensor.load(i));
    sheet.texts.push_back(element_text(tensor, i));
  }
  return sheet;
}

}  // namespace

Result<std::vector<Picture>> draw(const contract::Contract& contract, const reference::Reference& reference,
                                  const contract::Bindings& bindings, const Outputs& outputs,
                                  const Options& options) {
  std::vector<Picture> pictures;
  for (const contract::TensorSpec* spec : contract.outputs()) {
    const auto found = outputs.find(spec->name);
    if (found == outputs.end() || found->second->count() == 0) continue;
    const Tensor& tensor = *found->second;
    const auto elements = affordable(reference, bindings, spec->name, tensor, options);
    if (!elements) return elements.error();
    const auto look = look_at(contract, reference, bindings, spec->name, tensor, *elements, options);
    if (!look) return look.error();
    Picture picture;
    picture.output = spec->name;
    picture.dtype = contract::info(tensor.dtype).name;
    picture.extents = tensor.extents;
    picture.columns = std::max<int64_t>(1, look->measured.columns());
    picture.rows = std::max<int64_t>(1, tensor.count() / picture.columns);
    picture.elements = tensor.count();
    picture.judged = static_cast<int64_t>(look->measured.elements.size());
    picture.outside =
        std::count_if(look->measured.elements.begin(), look->measured.elements.end(),
                      [](const Element& element) { return is_specified(element) && !element.admitted; });
    paint_grid(picture, *look);
    count_bins(picture, *look);
    choose_points(picture, *look, options.seed);
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

Result<std::vector<Sheet>> tabulate(const contract::Contract& contract, const reference::Reference& reference,
                                    const contract::Bindings& bindings, const Outputs& outputs,
                                    const Options& options) {
  std::vector<Sheet> sheets;
  for (const auto& [name, tensor] : bindings.inputs) sheets.push_back(values_of(name, *tensor));
  for (const contract::TensorSpec* spec : contract.outputs()) {
    const auto found = outputs.find(spec->name);
    if (found == outputs.end()) continue;
    Sheet sheet = values_of(spec->name, *found->second);
    sheet.is_output = true;
    std::vector<int64_t> elements(
        static_cast<std::size_t>(std::min(found->second->count(), Sheet::kMostLooked)));
    std::iota(elements.begin(), elements.end(), int64_t{0});
    const auto look =
        look_at(contract, reference, bindings, spec->name, *found->second, elements, options, true);
    if (!look) return look.error();
    for (const auto& [at, text] : look->wrong)
      sheet.wrong.push_back({elements[at], std::abs(look->measured.elements[at].error), text});
    for (std::size_t i = 0; i < sheet.values.size(); ++i) {
      sheet.exact.push_back(look->measured.elements[i].value);
      sheet.admitted.push_back(look->measured.elements[i].admitted);
    }
    const auto shown = static_cast<std::ptrdiff_t>(sheet.values.size());
    sheet.low.assign(look->measured.low.begin(), look->measured.low.begin() + shown);
    sheet.high.assign(look->measured.high.begin(), look->measured.high.begin() + shown);
    sheets.push_back(std::move(sheet));
  }
  return sheets;
}

}  // namespace assay::judge
