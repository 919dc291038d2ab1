#include "judge/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "judge/draws.h"
#include "judge/numbers.h"
#include "judge/relations.h"
#include "judge/sample.h"
#include "judge/thresholds.h"

namespace assay::judge {

using contract::Bindings;
using contract::coordinates;
using contract::Tensor;
using reference::Choice;
using reference::ChoiceKind;
using reference::ChoiceWeights;
using reference::Reference;

namespace {

std::vector<int64_t> first_elements(int64_t count) {
  std::vector<int64_t> elements(static_cast<std::size_t>(count));
  std::iota(elements.begin(), elements.end(), int64_t{0});
  return elements;
}

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

class ChoiceJudge {
 public:
  ChoiceJudge(const Reference& reference, const Bindings& bindings, const Outputs& outputs,
              const Options& options, Judgement& judgement)
      : reference_(reference), outputs_(outputs), options_(options), judgement_(judgement) {
    found_.bindings = bindings;
  }

  Result<Choices> run() {
    for (const Choice& choice : reference_.choices(found_.bindings)) {
      const std::size_t before = judgement_.findings.size();
      Result<void> done = one(choice);
      if (!done) return done.error();
      // Nothing follows from an index that is none.
      const bool chooses_index = choice.kind == ChoiceKind::Sample || choice.kind == ChoiceKind::Order;
      if (chooses_index && judgement_.findings.size() > before)
        found_.bindings.inputs.erase(reference::choice_input(choice.name));
    }
    return std::move(found_);
  }

  const std::map<std::string, Draws>& draws() const { return draws_; }

 private:
  reference::BudgetOptions budget() const {
    return {.tensor_cores = options_.tensor_cores, .threads = options_.threads};
  }

  void report(const Choice& choice, int64_t judged, int64_t outside, std::string text,
              Kind kind = Kind::WrongResult) {
    evidence::Numeric numeric;
    numeric.output = choice.is_output ? choice.name : choice.told.front().output;
    numeric.misfit = std::move(text);
    numeric.judged = judged;
    numeric.outside = outside;
    judgement_.findings.push_back(
        {.kind = kind, .severity = Severity::Error, .evidence = std::move(numeric)});
  }

  void test(const Choice& choice, const Draws& draws) {
    draws_[choice.name] = draws;
    if (const std::optional<FrequencyTest> odd = least_probable(draws))
      report(choice, static_cast<int64_t>(draws.outcome.size()), 0, odd->text, Kind::WrongDistribution);
    add_margin(draws);
  }

  void add_margin(const Draws& draws) {
    if (!options_.margins) return;
    if (const std::optional<FrequencyTest> least = least_probable(draws, kRecordedGate))
      judgement_.margins.add(Gate::Choice, least->log_p / kChoiceGate, least->log_p < kChoiceGate);
  }

  Result<void> one(const Choice& choice) {
    const auto output = outputs_.find(choice.name);
    if (choice.is_output && output == outputs_.end()) return {};
    if (choice.is_output) found_.bindings.inputs[reference::choice_input(choice.name)] = output->second;
    Result<std::vector<int64_t>> extents = reference_.weights_extents(found_.bindings, choice);
    if (!extents) return extents.error();
    if (product(*extents) == 0) return {};
    switch (choice.kind) {
      case ChoiceKind::Random:
        return choice.is_output ? random(choice, *extents, *output->second) : told(choice, *extents);
      case ChoiceKind::Rounded:
        return rounded(choice, *extents, *output->second);
      case ChoiceKind::Sample:
        return sample(choice, *extents, *output->second);
      case ChoiceKind::Order:
        return order(choice, *extents, *output->second);
    }
    return {};
  }

  // ---- random ----------------------------------------------------------------

  // The probabilities of the first draws. Where one is not known, or is none, the draw says nothing.
  Result<Draws> probabilities(const Choice& choice, const std::vector<int64_t>& extents) {
    const std::vector<int64_t> elements = first_elements(std::min(product(extents), kMostDraws));
    Result<ChoiceWeights> weights = reference_.weights(found_.bindings, choice, elements, budget());
    if (!weights) return weights.error();
    Draws draws;
    draws.name = choice.name.find('\'') == std::string::npos ? choice.name : choice.told.front().output;
    draws.extents = extents;
    draws.outcome.assign(elements.size(), 0);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const double p = weights->value[i], b = weights->bound[i];
      if ((weights->flags[i] & kNotKnown) != 0 || !(p + b >= 0) || !(p - b <= 1)) draws.outcome[i] = -1;
      draws.low.push_back(std::clamp(p - b, 0.0, 1.0));
      draws.high.push_back(std::clamp(p + b, 0.0, 1.0));
    }
    return draws;
  }

  Result<void> random(const Choice& choice, const std::vector<int64_t>& extents, const Tensor& output) {
    Result<Draws> draws = probabilities(choice, extents);
    if (!draws) return draws.error();
    int64_t neither = 0, first = -1;
    for (int64_t i = 0; i < output.count(); ++i) {
      const double value = output.load(i);
      if (value == 0 || value == 1) continue;
      ++neither;
      if (first < 0) first = i;
    }
    judgement_.judged += output.count();
    if (neither > 0) {
      report(
          choice, output.count(), neither,
          fmt::format("{}: {} of {} elements are neither 0 nor 1: {}{} is {:.6g}", choice.name, neither,
                      output.count(), choice.name, coordinates(output.extents, first), output.load(first)));
      return {};
    }
    for (std::size_t i = 0; i < draws->outcome.size(); ++i)
      if (draws->outcome[i] >= 0) draws->outcome[i] = output.load(static_cast<int64_t>(i)) != 0;
    test(choice, *draws);
    return {};
  }

  // A draw that is no output: the outputs are evaluated for both outcomes, and their elements tell which it was.
  Result<void> told(const Choice& choice, const std::vector<int64_t>& extents) {
    Result<Draws> draws = probabilities(choice, extents);
    if (!draws) return draws.error();
    const std::string input = reference::choice_input(choice.name);
    auto drawn = std::make_shared<Tensor>(Tensor::zeros(contract::DType::boolean, extents));
    constexpr uint8_t kNo = 1, kYes = 2;
    std::vector<uint8_t> seen(static_cast<std::size_t>(drawn->count()), 0);  // outcomes that an element told
    int64_t torn = -1;
    std::string of;
    for (const Choice::Told& telling : choice.told) {
      const auto output = outputs_.find(telling.output);
      if (output == outputs_.end() || output->second->count() == 0) continue;
      const Tensor& tensor = *output->second;
      const std::vector<int64_t> elements = elements_of(tensor);
      found_.told[telling.output] = elements;
      std::vector<reference::Expectation> expected;
      for (const int64_t outcome : {0, 1}) {
        Bindings given = found_.bindings;
        auto all = std::make_shared<Tensor>(Tensor::zeros(contract::DType::boolean, extents));
        for (int64_t i = 0; i < all->count(); ++i) all->store_int(i, outcome);
        given.inputs[input] = std::move(all);
        auto one = reference_.expect(given, telling.output, elements, budget());
        if (!one) return one.error();
        expected.push_back(std::move(*one));
      }
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const std::vector<int64_t> index = contract::index_of(tensor.extents, elements[i]);
        int64_t at = 0;
        for (std::size_t d = 0; d < extents.size(); ++d)
          at = at * extents[d] + index[static_cast<std::size_t>(telling.dimensions[d])];
        const bool no = expected[0].admits(i, tensor, elements[i]),
                   yes = expected[1].admits(i, tensor, elements[i]);
        uint8_t& outcome = seen[static_cast<std::size_t>(at)];
        if (no != yes) {
          outcome |= yes ? kYes : kNo;
          if (outcome == (kYes | kNo) && torn < 0) torn = at, of = telling.output;
          if (outcome != (kYes | kNo)) drawn->store_int(at, yes);
        } else if (!no && outcome == 0) {
          // It is neither: the nearer one is judged.
          const double stored = tensor.load(elements[i]);
          drawn->store_int(at,
                           std::abs(stored - expected[1].value[i]) < std::abs(stored - expected[0].value[i]));
        }
      }
    }
    found_.bindings.inputs[input] = drawn;
    if (torn >= 0) {
      report(
          choice, drawn->count(), 1,
          fmt::format(
              "{}: {}{} is one draw, but some elements that depend on it have one outcome and some the other",
              of, draws->name, coordinates(extents, torn)));
      return {};
    }
    for (std::size_t i = 0; i < draws->outcome.size(); ++i)
      if (draws->outcome[i] >= 0) draws->outcome[i] = seen[i] == kYes ? 1 : seen[i] == kNo ? 0 : -1;
    test(choice, *draws);
    return {};
  }

  // All, or a sample that holds a stretch from the beginning, for the draws of neighbours.
  std::vector<int64_t> elements_of(const Tensor& tensor) const {
    if (tensor.count() <= 2 * options_.max_elements) return first_elements(tensor.count());
    std::vector<int64_t> elements = choose_elements(tensor, options_.max_elements, options_.seed);
    const std::vector<int64_t> first = first_elements(options_.max_elements);
    elements.insert(elements.end(), first.begin(), first.end());
    std::sort(elements.begin(), elements.end());
    elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
    return elements;
  }

  // ---- stochastic rounding ---------------------------------------------------

  static double in_direction(contract::DType dtype, double value, numerics::Rounding rounding) {
    const contract::DTypeInfo& to = contract::info(dtype);
    const double most = numerics::max_finite(to.format);
    if (to.saturates) value = std::clamp(value, -most, most);
    return numerics::to_double(to.format, numerics::from_double(to.format, value, rounding));
  }

  Result<void> rounded(const Choice& choice, const std::vector<int64_t>& extents, const Tensor& output) {
    const int64_t count = std::min(output.count(), kMostDraws);
    Result<ChoiceWeights> weights =
        reference_.weights(found_.bindings, choice, first_elements(count), budget());
    if (!weights) return weights.error();
    judgement_.judged += count;
    Draws draws;
    draws.name = choice.name;
    draws.extents = extents;
    draws.yes = "rounded up";
    draws.outcome.assign(static_cast<std::size_t>(count), -1);
    draws.low.assign(static_cast<std::size_t>(count), 0);
    draws.high.assign(static_cast<std::size_t>(count), 1);
    int64_t outside = 0, worst = -1;
    constexpr double kNoNumber = 1e300;  // how far off NaN is: further than any number
    double largest = -1;
    for (int64_t at = 0; at < count; ++at) {
      const auto i = static_cast<std::size_t>(at);
      const double v = weights->value[i], b = weights->bound[i], stored = output.load(at);
      if ((weights->flags[i] & reference::kUnspecified) != 0) continue;
      if (!std::isfinite(v)) {
        const bool same = std::isnan(v) ? std::isnan(stored) : stored == v;
        if (!same && (weights->flags[i] & reference::kMayOverflow) == 0)
          ++outside, worst = at, largest = kNoNumber;
        continue;
      }
      const double below = in_direction(choice.dtype, v - b, numerics::Rounding::Down),
                   above = in_direction(choice.dtype, v + b, numerics::Rounding::Up);
      if (!(stored >= below && stored <= above)) {
        if ((weights->flags[i] & reference::kMayOverflow) != 0 && !std::isfinite(stored)) continue;
        ++outside;
        const double off = std::isnan(stored) ? kNoNumber : std::abs(stored - v);
        if (off > largest) largest = off, worst = at;
        continue;
      }
      const double low = in_direction(choice.dtype, v, numerics::Rounding::Down),
                   high = in_direction(choice.dtype, v, numerics::Rounding::Up), gap = high - low;
      const bool is_told =
          gap > 0 && std::isfinite(gap) && b <= kToldPart * gap && v - b >= low && v + b <= high;
      if (!is_told || (weights->flags[i] & kNotKnown) != 0) continue;
      draws.low[i] = (v - b - low) / gap;
      draws.high[i] = (v + b - low) / gap;
      draws.outcome[i] = stored == high;
    }
    if (outside > 0) {
      const double v = weights->value[static_cast<std::size_t>(worst)];
      report(
          choice, count, outside,
          fmt::format(
              "{}: {} of {} elements are neither of the two neighbours of the exact value: {}{} is {:.9g}, "
              "the exact value is {:.9g}",
              choice.name, outside, count, choice.name, coordinates(output.extents, worst),
              output.load(worst), v));
      return {};
    }
    test(choice, draws);
    return {};
  }

  // ---- weights along a row -----------------------------------------------------

  // Weights of whole rows, as many as can be afforded, evenly.
  struct Rows {
    int64_t length = 0;
    std::vector<int64_t> rows;
    ChoiceWeights weights;
    bool is_known(std::size_t row) const {
      for (int64_t c = 0; c < length; ++c) {
        const std::size_t i = row * static_cast<std::size_t>(length) + static_cast<std::size_t>(c);
        if (std::isnan(weights.value[i]) || (weights.flags[i] & reference::kUnspecified) != 0) return false;
      }
      return true;
    }
    double value(std::size_t row, int64_t c) const {
      return weights.value[row * static_cast<std::size_t>(length) + static_cast<std::size_t>(c)];
    }
    double bound(std::size_t row, int64_t c) const {
      return weights.bound[row * static_cast<std::size_t>(length) + static_cast<std::size_t>(c)];
    }
  };

  Result<Rows> rows_of(const Choice& choice, const std::vector<int64_t>& extents) {
    Rows rows;
    rows.length = extents.back();
    const int64_t all = product(extents) / rows.length;
    const int64_t most = std::clamp<int64_t>(kMostWeights / rows.length, 1, all);
    std::vector<int64_t> elements;
    for (int64_t n = 0; n < most; ++n) {
      const int64_t row = most == all ? n : n * all / most;
      rows.rows.push_back(row);
      for (int64_t c = 0; c < rows.length; ++c) elements.push_back(row * rows.length + c);
    }
    Result<ChoiceWeights> weights = reference_.weights(found_.bindings, choice, elements, budget());
    if (!weights) return weights.error();
    rows.weights = std::move(*weights);
    return rows;
  }

  // ---- sampling ----------------------------------------------------------------

  // A draw of an index becomes yes-or-no draws: whether it is in a group of indices. Groups by rank tell temperature,
  // cut-offs and greed; groups by place tell a wrong search; the lower half of each row's own distribution tells whether
  // rows share a random number.
  Result<void> sample(const Choice& choice, const std::vector<int64_t>& extents, const Tensor& output) {
    Result<Rows> rows = rows_of(choice, extents);
    if (!rows) return rows.error();
    judgement_.judged += static_cast<int64_t>(rows->rows.size());
    constexpr int kPlaces = 8, kRanks = 6;
    std::vector<Draws> groups(kPlaces + kRanks + 1);
    std::vector<int64_t> leading(extents.begin(), extents.end() - 1);
    if (product(leading) != static_cast<int64_t>(rows->rows.size()))
      leading = {static_cast<int64_t>(rows->rows.size())};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      groups[g].name = choice.name;
      groups[g].extents = leading;
      groups[g].yes = g < kPlaces
                          ? fmt::format("indices {} to {}", static_cast<int64_t>(g) * rows->length / kPlaces,
                                        (static_cast<int64_t>(g) + 1) * rows->length / kPlaces - 1)
                      : g < kPlaces + kRanks ? std::string(kRankNames[g - kPlaces])
                                             : "in the lower half of their distribution";
    }
    int64_t illegal = 0, first = -1;
    for (std::size_t r = 0; r < rows->rows.size(); ++r) {
      for (Draws& group : groups) {
        group.low.push_back(0);
        group.high.push_back(1);
        group.outcome.push_back(-1);
      }
      if (!rows->is_known(r)) continue;
      const int64_t drawn = output.load_int(rows->rows[r]);
      const bool in_range = drawn >= 0 && drawn < rows->length;
      if (!in_range || !(rows->value(r, drawn) + rows->bound(r, drawn) > 0)) {
        ++illegal;
        if (first < 0) first = static_cast<int64_t>(r);
        continue;
      }
      add_sample(*rows, r, drawn, groups);
    }
    if (illegal > 0) {
      const int64_t row = rows->rows[static_cast<std::size_t>(first)], drawn = output.load_int(row);
      const bool in_range = drawn >= 0 && drawn < rows->length;
      report(choice, static_cast<int64_t>(rows->rows.size()), illegal,
             fmt::format("{}: {} of {} draws are impossible: {}{} is {}, which {}", choice.name, illegal,
                         rows->rows.size(), choice.name, coordinates(output.extents, row), drawn,
                         in_range ? "has weight 0" : fmt::format("is not an index below {}", rows->length)));
      return {};
    }
    std::optional<FrequencyTest> worst;
    for (const Draws& group : groups) {
      add_margin(group);
      if (const std::optional<FrequencyTest> odd = least_probable(group);
          odd && (!worst || odd->log_p < worst->log_p))
        worst = odd;
    }
    if (worst)
      report(choice, static_cast<int64_t>(rows->rows.size()), 0, worst->text, Kind::WrongDistribution);
    return {};
  }

  static constexpr std::string_view kRankNames[] = {
      "of the most probable index",     "of one of the 2 most probable indices",
      "of one of the 4 most probable",  "of one of the 16 most probable",
      "of one of the 64 most probable", "of one of the 256 most probable"};

  static void add_sample(const Rows& rows, std::size_t r, int64_t drawn, std::vector<Draws>& groups) {
    constexpr int64_t kRanks[] = {1, 2, 4, 16, 64, 256};
    const int64_t n = rows.length;
    double total = 0, slack = 0;
    for (int64_t c = 0; c < n; ++c) {
      total += std::max(0.0, rows.value(r, c));
      slack += rows.bound(r, c);
    }
    if (!(total > 0) || !std::isfinite(total) || !(slack < kToldPart * total)) return;
    std::vector<int64_t> by_rank = first_elements(n);
    std::stable_sort(by_rank.begin(), by_rank.end(),
                     [&](int64_t a, int64_t b) { return rows.value(r, a) > rows.value(r, b); });
    const auto set = [&](std::size_t g, double weight, bool in) {
      groups[g].low[r] = std::clamp((weight - slack) / (total + slack), 0.0, 1.0);
      groups[g].high[r] = std::clamp((weight + slack) / (total - slack), 0.0, 1.0);
      groups[g].outcome[r] = in;
    };
    const int64_t places = static_cast<int64_t>(groups.size()) - 1 - static_cast<int64_t>(std::size(kRanks));
    for (int64_t g = 0; g < places; ++g) {
      double weight = 0;
      for (int64_t c = g * n / places; c < (g + 1) * n / places; ++c)
        weight += std::max(0.0, rows.value(r, c));
      set(static_cast<std::size_t>(g), weight, drawn >= g * n / places && drawn < (g + 1) * n / places);
    }
    for (std::size_t k = 0; k < std::size(kRanks); ++k) {
      double weight = 0;
      bool in = false;
      for (int64_t c = 0; c < std::min(kRanks[k], n); ++c) {
        weight += std::max(0.0, rows.value(r, by_rank[static_cast<std::size_t>(c)]));
        in |= by_rank[static_cast<std::size_t>(c)] == drawn;
      }
      set(static_cast<std::size_t>(places) + k, weight, in);
    }
    double below = 0;
    int64_t half = 0;
    while (half < n && below + std::max(0.0, rows.value(r, half)) <= total / 2)
      below += std::max(0.0, rows.value(r, half++));
    set(groups.size() - 1, below, drawn < half);
  }

  // ---- orders ------------------------------------------------------------------

  // The chosen are an order of the largest if values within their bounds can be found that make them so: none is
  // certainly smaller than a later one, or than one that was left out.
  Result<void> order(const Choice& choice, const std::vector<int64_t>& extents, const Tensor& output) {
    Result<Rows> rows = rows_of(choice, extents);
    if (!rows) return rows.error();
    const int64_t chosen = output.extents.back(), length = rows->length;
    if (chosen > length) return {};
    int64_t wrong = 0;
    std::string text;
    for (std::size_t r = 0; r < rows->rows.size(); ++r) {
      if (!rows->is_known(r)) continue;
      const std::string why = not_an_order(choice, *rows, r, output, chosen);
      judgement_.judged += chosen;
      if (why.empty()) continue;
      if (wrong++ == 0) text = why;
    }
    if (wrong > 0)
      report(choice, static_cast<int64_t>(rows->rows.size()), wrong,
             fmt::format("{}: {} of {} rows are not an {}: {}", choice.name, wrong, rows->rows.size(),
                         choice.largest ? "order of the largest" : "order of the smallest", text));
    return {};
  }

  static std::string not_an_order(const Choice& choice, const Rows& rows, std::size_t r, const Tensor& output,
                                  int64_t chosen) {
    const double sign = choice.largest ? 1 : -1;
    const int64_t base = rows.rows[r] * chosen;
    std::vector<char> taken(static_cast<std::size_t>(rows.length), 0);
    const auto name = [&](int64_t j) { return choice.name + coordinates(output.extents, base + j); };
    double least = std::numeric_limits<double>::infinity();  // that a chosen one can be at most
    int64_t last = -1;
    for (int64_t j = 0; j < chosen; ++j) {
      const int64_t index = output.load_int(base + j);
      if (index < 0 || index >= rows.length)
        return fmt::format("{} is {}, which is not an index", name(j), index);
      if (taken[static_cast<std::size_t>(index)]++)
        return fmt::format("{} is {}, which is already there", name(j), index);
      const double v = sign * rows.value(r, index), b = rows.bound(r, index);
      if (v - b > least)
        return fmt::format("{} is {}, whose value {:.9g} belongs before that of {}, {:.9g}", name(j), index,
                           sign * v, last, rows.value(r, last));
      const bool equal = j > 0 && b == 0 && rows.bound(r, last) == 0 && v == sign * rows.value(r, last);
      if (choice.first_of_equals && equal && index < last)
        return fmt::format("{} is {} after {}, which has the same value: the first of equals comes first",
                           name(j), index, last);
      least = std::min(least, v + b);
      last = index;
    }
    for (int64_t c = 0; c < rows.length && last >= 0; ++c) {
      if (taken[static_cast<std::size_t>(c)]) continue;
      const double v = sign * rows.value(r, c), b = rows.bound(r, c);
      const bool before = choice.first_of_equals && b == 0 && rows.bound(r, last) == 0 &&
                          v == sign * rows.value(r, last) && c < last;
      if (v - b > least || before)
        return fmt::format("{} is {} with value {:.9g}, but {} with {:.9g} is left out", name(chosen - 1),
                           last, rows.value(r, last), c, sign * v);
    }
    return "";
  }

  const Reference& reference_;
  const Outputs& outputs_;
  const Options& options_;
  Judgement& judgement_;
  Choices found_;
  std::map<std::string, Draws> draws_;  // by choice
};

// Whether each draw of one call is the one of the other call so many places later, as draws themselves.
Draws agreement(const Draws& first, const Draws& second, int64_t shift, const std::string& seeds) {
  Draws same;
  same.name = first.name;
  same.extents =
      shift == 0 ? first.extents : std::vector<int64_t>{static_cast<int64_t>(first.outcome.size())};
  same.yes = shift == 0 ? fmt::format("the same with {}", seeds)
                        : fmt::format("the same with {}, {} place{} apart", seeds, std::abs(shift),
                                      std::abs(shift) == 1 ? "" : "s");
  const auto count = static_cast<int64_t>(first.outcome.size());
  for (int64_t at = std::max<int64_t>(0, -shift); at < std::min(count, count - shift); ++at)
    add_agreement(same, first, static_cast<std::size_t>(at), second, static_cast<std::size_t>(at + shift));
  return same;
}

// Distances at which the draws of two calls are compared: seeds that are added to an index, or to one of four draws of
// a thread, shift them by their difference.
std::vector<int64_t> shifts(int64_t difference, int64_t count) {
  std::vector<int64_t> found = {0};
  for (const int64_t shift : {int64_t{1}, int64_t{-1}, difference, -difference})
    if (std::abs(shift) < count && std::ranges::find(found, shift) == found.end()) found.push_back(shift);
  return found;
}

}  // namespace

std::vector<Finding> compare_draws(const Reference& reference, const Bindings& bindings,
                                   const Bindings& reseeded, const Outputs& first, const Outputs& second) {
  Judgement of_first, of_second;
  const Options options;
  ChoiceJudge before(reference, bindings, first, options, of_first),
      after(reference, reseeded, second, options, of_second);
  if (!before.run() || !after.run()) return {};
  for (const Choice& choice : reference.choices(bindings)) {
    const auto a = before.draws().find(choice.name), b = after.draws().find(choice.name);
    const auto differs = std::ranges::find_if(choice.seeds, [&](const std::string& seed) {
      return bindings.scalars.at(seed).bits != reseeded.scalars.at(seed).bits;
    });
    if (differs == choice.seeds.end() || a == before.draws().end() || b == after.draws().end()) continue;
    if (a->second.outcome.size() != b->second.outcome.size()) continue;
    const int64_t one = bindings.scalars.at(*differs).as_int(),
                  other = reseeded.scalars.at(*differs).as_int();
    const std::string seeds = fmt::format("{0} = {1} and with {0} = {2}", *differs, one, other);
    const auto difference = static_cast<int64_t>(static_cast<uint64_t>(other) - static_cast<uint64_t>(one));
    const auto count = static_cast<int64_t>(a->second.outcome.size());
    std::optional<FrequencyTest> worst;
    for (const int64_t shift : shifts(difference, count))
      if (const auto odd = least_probable(agreement(a->second, b->second, shift, seeds));
          odd && (!worst || odd->log_p < worst->log_p))
        worst = odd;
    if (!worst) continue;
    evidence::Numeric numeric;
    numeric.output = choice.is_output ? choice.name : choice.told.front().output;
    numeric.misfit = worst->text;
    numeric.judged = count;
    Finding finding{
        .kind = Kind::WrongDistribution, .severity = Severity::Error, .evidence = std::move(numeric)};
    finding.attribution.relation = to_string(Relation::Reseeded);
    return {std::move(finding)};
  }
  return {};
}

Result<Choices> judge_choices(const Reference& reference, const Bindings& bindings, const Outputs& outputs,
                              const Options& options, Judgement& judgement) {
  return ChoiceJudge(reference, bindings, outputs, options, judgement).run();
}

}  // namespace assay::judge
