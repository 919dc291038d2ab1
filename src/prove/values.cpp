#include "prove/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/random.h"
#include "base/symbol.h"
#include "finding/message.h"
#include "judge/measure.h"
#include "judge/numbers.h"
#include "prove/solve.h"
#include "prove/values_blocks.h"
#include "prove/values_inputs.h"
#include "reference/reference.h"
#include "subject/tensor_cores.h"
#include "trial/giant.h"

namespace assay::prove {

using contract::Shape;
using contract::TensorSpec;

namespace {

// Bytes of all tensors. They are address space, not memory: parts that are never read cost nothing.
constexpr double kMostValuesTensors = 60e9;
constexpr double kLeastGiantValues = 0x1p18;  // elements: smaller shapes are among the others
constexpr size_t kListedShapes = 8;           // of those that the contract lists; chosen
constexpr size_t kDifferences = 3;            // shapes with a difference after which no more are looked for
constexpr double kQuickTrial = 1e6;           // bytes of tensors: such a trial takes a fraction of a second
constexpr int kRandomShapes = 6;              // small ones, and as many from the whole range

double tensor_bytes(const TensorSpec& tensor, const Shape& shape) {
  const auto layout = tensor.layout(shape);
  return layout ? static_cast<double>(layout->bytes) : 1e300;
}

bool values_fit(const contract::Contract& contract, const Shape& shape) {
  double all = 0;
  for (const TensorSpec& tensor : contract.tensors) {
    all += tensor_bytes(tensor, shape);
  }
  return all <= kMostValuesTensors && contract.check_shape(shape);
}

int64_t allowed_extent(const contract::Dim& dim, int64_t value) {
  return std::clamp(value / dim.multiple_of * dim.multiple_of, dim.lowest(), dim.highest());
}

// The shapes at which values are compared: the smallest and the largest first, those where 31 and 32 bits end, then small
// ones, and ones from the whole range evenly by magnitude.
std::vector<Shape> compared_shapes(const contract::Contract& contract, std::span<const Shape> examples,
                                   Random& random) {
  std::vector<Shape> shapes;
  const auto add = [&](Shape shape) {
    // What is too large is halved, one dim after another.
    for (int tries = 0; !values_fit(contract, shape) && tries < 200 && !contract.dims.empty(); ++tries) {
      const auto which = random.between(0, static_cast<int64_t>(contract.dims.size()) - 1);
      const contract::Dim& dim = contract.dims[static_cast<size_t>(which)];
      shape[dim.name] = allowed_extent(dim, shape[dim.name] / 2);
    }
    if (values_fit(contract, shape) && std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
      shapes.push_back(std::move(shape));
  };
  const auto drawn = [&](const auto& value) {
    Shape shape;
    for (const contract::Dim& dim : contract.dims) shape[dim.name] = allowed_extent(dim, value(dim));
    return shape;
  };
  const auto small = [&](const contract::Dim& dim) {
    return dim.lowest() + random.between(0, 70 * dim.multiple_of);
  };
  const auto high = [](const contract::Dim& dim) { return dim.highest(); };
  add(drawn([](const contract::Dim& dim) { return dim.lowest(); }));
  add(drawn(small));
  add(drawn(high));
  for (const Shape& example : examples) add(example);
  for (size_t i = 0; i < std::min(contract.shapes.size(), kListedShapes); ++i) add(contract.shapes[i]);
  for (Shape& giant : trial::giant_shapes(contract, kLeastGiantValues, kMostValuesTensors))
    add(std::move(giant));
  for (const contract::Dim& one : contract.dims)
    add(drawn([&](const contract::Dim& dim) { return dim.name == one.name ? high(dim) : small(dim); }));
  for (int i = 0; i < kRandomShapes; ++i) {
    add(drawn(small));
    add(drawn([&](const contract::Dim& dim) {
      int64_t reach = dim.highest() - dim.lowest() + 1;
      for (int64_t halvings = random.between(0, 24); halvings > 0 && reach > 1; --halvings)
        reach = (reach + 1) / 2;
      return dim.lowest() + random.between(0, reach - 1);
    }));
  }
  return shapes;
}

class Comparison {
 public:
  explicit Comparison(const ValuesSetting& setting)
      : setting_(setting),
        contract_(setting.contract),
        runner_(setting.contract, setting.subject, recording(setting.runner)),
        blocks_(setting.contract, setting.texts),
        tensor_cores_(setting.modules) {
    const std::string& entry = contract_.kernel.entry;
    outcome_.obligation.kernel = entry.empty() ? contract_.kernel.global : entry;
    outcome_.obligation.name = "values";
  }

  ValuesOutcome run() {
    const double start = work_seconds();
    until_ = start + setting_.seconds;
    auto reference = reference::Reference::make(contract_);
    if (!reference)
      problem("the reference cannot be evaluated: " + reference.error().text());
    else if (!reference->is_formula())
      problem("the reference is not a formula");
    else
      compare_all(*reference);
    conclude();
    outcome_.obligation.seconds = work_seconds() - start;
    return std::move(outcome_);
  }

 private:
  static subject::RunnerOptions recording(subject::RunnerOptions options) {
    options.record = true;
    return options;
  }

  void compare_all(const reference::Reference& reference) {
    Random random(hash(contract_.title));
    uint64_t choice = 0;
    std::vector<std::pair<Shape, uint64_t>> differing;  // with the choice of inputs
    for (const Shape& shape : compared_shapes(contract_, setting_.examples, random)) {
      if (work_seconds() > until_ || outcome_.trials.size() >= kDifferences) break;
      const size_t before = outcome_.trials.size();
      compare_at(reference, shape, choice, random);
      if (outcome_.trials.size() > before) differing.emplace_back(shape, choice);
      ++choice;
    }
    for (const auto& [shape, inputs] : differing)
      if (bytes(shape) > kQuickTrial && !has_quick_trial())
        look_for_smaller(reference, shape, inputs, random);
  }

  bool has_quick_trial() const {
    return std::any_of(outcome_.trials.begin(), outcome_.trials.end(),
                       [&](const trial::Trial& trial) { return bytes(trial.shape) <= kQuickTrial; });
  }

  // A trial at a large shape takes long, a comparison does not: is there a difference at a small shape as well? Dims
  // keep what they leave when divided by a power of two, on which unrolled loops and tiles depend.
  void look_for_smaller(const reference::Reference& reference, const Shape& shape, uint64_t choice,
                        Random& random) {
    for (const int64_t keep : {16, 64, 256, 1024, 4096}) {
      Shape small = shape;
      for (const contract::Dim& dim : contract_.dims)
        if (int64_t& value = small[dim.name]; value > 2 * keep)
          value = allowed_extent(dim, keep + value % keep);
      if (small == shape || has_quick_trial() || work_seconds() > until_) return;
      compare_at(reference, small, choice, random);
    }
  }

  void compare_at(const reference::Reference& reference, const Shape& shape, uint64_t choice,
                  Random& random) {
    const std::vector<const TensorSpec*> outputs = contract_.outputs();
    const auto is_empty = [&](const TensorSpec* tensor) { return tensor_bytes(*tensor, shape) == 0; };
    if (std::all_of(outputs.begin(), outputs.end(), is_empty)) return;
    auto inputs = ValuesInputs::make(contract_, shape, choice);
    if (!inputs) return problem(inputs.error().message);
    contract::Bindings called = inputs->bindings();
    for (auto& [name, tensor] : called.inputs) tensor = nullptr;
    const subject::Observation seen = runner_.record(called);
    if (seen.outcome != subject::CallOutcome::Ended || seen.recorded_left_out || seen.error_code != 0)
      return problem(fmt::format("the host code could not be run at {}", contract::to_string(shape)));
    const BlocksOutcome blocks = blocks_.run(seen.recorded, *inputs, random, until_);
    if (blocks.violation) violations_.push_back(shape);
    if (!blocks.problem.empty()) return problem(blocks.problem);
    const bool tensor_cores = !tensor_cores_.reasons(blocks.kernels).empty();
    size_t compared = 0;
    for (const TensorSpec& tensor : contract_.tensors) {
      std::vector<const StoredElement*> stored;
      std::vector<int64_t> elements;
      for (const StoredElement& one : blocks.stored)
        if (one.tensor == &tensor) stored.push_back(&one), elements.push_back(one.element);
      if (stored.empty()) continue;
      auto expected =
          reference.expect(inputs->bindings(), tensor.name, elements, inputs->options(tensor_cores));
      if (!expected) return problem(expected.error().message);
      compared += compare_elements(tensor, stored, *expected, *inputs);
    }
    if (compared == 0) return;
    outcome_.obligation.compared.elements += compared;
    ++outcome_.obligation.compared.shapes;
    compared_kernels_.insert(blocks.kernels.begin(), blocks.kernels.end());
    double size = 0;
    for (const TensorSpec& tensor : contract_.tensors) size += tensor_bytes(tensor, shape);
    if (size > largest_) {
      largest_ = size;
      outcome_.obligation.compared.largest = shape;
    }
  }

  // By the judge's rule for one element. Returns how many were compared.
  size_t compare_elements(const TensorSpec& tensor, const std::vector<const StoredElement*>& stored,
                          reference::Expectation& expected, const ValuesInputs& inputs) {
    // The elements side by side, as a tensor of their own.
    contract::Tensor together = contract::Tensor::zeros(tensor.dtype, {static_cast<int64_t>(stored.size())});
    for (size_t i = 0; i < stored.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      std::memcpy(together.at(at), stored[i]->value.at(0), static_cast<size_t>(together.item_bytes()));
      expected.element[i] = at;
    }
    const judge::MeasureOptions how{contract_.require.rtol, contract_.require.atol,
                                    contract_.reference.accumulate};
    const judge::Gauge gauge(together, expected, how);
    size_t compared = 0;
    for (size_t i = 0; i < stored.size(); ++i) {
      if (expected.flags[i] & (reference::kNonfiniteValue | reference::kUnspecified)) continue;
      ++compared;
      compared_outputs_.insert(tensor.name);
      if (gauge(i).admitted) continue;
      const Shape& shape = inputs.bindings().shape;
      std::string text = fmt::format("{}{} {}", tensor.name,
                                     contract::coordinates(*tensor.extents(shape), stored[i]->element),
                                     sentence(judge::text_of(gauge.compared(i))));
      outcome_.obligation.open.push_back({{}, std::move(text), Candidate{shape, ""}});
      outcome_.trials.push_back(inputs.trial());
      break;
    }
    return compared;
  }

  void problem(const std::string& text) {
    if (std::find(problems_.begin(), problems_.end(), text) == problems_.end()) problems_.push_back(text);
  }

  void conclude() {
    Obligation& result = outcome_.obligation;
    std::stable_sort(
        outcome_.trials.begin(), outcome_.trials.end(),
        [&](const trial::Trial& a, const trial::Trial& b) { return bytes(a.shape) < bytes(b.shape); });
    const auto open = [&](std::string why) { result.open.push_back({{}, std::move(why), std::nullopt}); };
    if (result.compared.elements == 0) {
      for (const std::string& one : problems_) open(one);
      if (problems_.empty()) open("no shape was compared in time");
      return;
    }
    if (!violations_.empty())
      open(fmt::format("a block makes an access that is out of bounds or misaligned, at {}",
                       contract::to_string(violations_.front())));
    const std::string why = problems_.empty() ? "" : ": " + problems_.front();
    for (const std::string& kernel : setting_.kernels)
      if (!compared_kernels_.contains(kernel))
        open(fmt::format("no element that {} stores was compared{}", plain_name(kernel), why));
    for (const TensorSpec* tensor : contract_.outputs())
      if (!compared_outputs_.contains(tensor->name))
        open(fmt::format("no element of `{}` was compared{}", tensor->name, why));
    if (!result.open.empty()) return;
    result.status = Status::Agrees;
    result.reason = fmt::format("{} elements at {} shapes were compared; the largest shape is {}",
                                result.compared.elements, result.compared.shapes,
                                contract::to_string(result.compared.largest));
    if (!problems_.empty()) result.reason += fmt::format(". Other shapes were not: {}", problems_.front());
  }

  double bytes(const Shape& shape) const {
    double all = 0;
    for (const TensorSpec& tensor : contract_.tensors) all += tensor_bytes(tensor, shape);
    return all;
  }

  const ValuesSetting& setting_;
  const contract::Contract& contract_;
  subject::Runner runner_;
  ValuesBlocks blocks_;
  subject::TensorCores tensor_cores_;
  ValuesOutcome outcome_;
  std::vector<std::string> problems_;
  std::vector<Shape> violations_;  // shapes at which a block leaves its arrays
  std::set<std::string> compared_kernels_, compared_outputs_;
  double largest_ = 0;
  double until_ = 0;  // of work_seconds()
};

}  // namespace

ValuesOutcome compare_values(const ValuesSetting& setting) {
  return Comparison(setting).run();
}

}  // namespace assay::prove
