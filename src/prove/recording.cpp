#include "prove/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "contract/legal_shape.h"
#include "trial/giant.h"
#include "trial/shapes.h"
#include "trial/thresholds.h"

namespace assay::prove {

using contract::Contract;
using contract::Shape;

namespace {

constexpr double kMostRecordedBytes = 100e9;    // the virtual device holds 141 GB
constexpr double kLeastRecordedGiant = 0x1p18;  // elements: smaller shapes are among the others
// Shapes about the constants of the code. Chosen: as many as the others, since a recording takes a millisecond.
constexpr size_t kMostAboutConstants = 200;
constexpr int64_t kOrdinaryDim = 100;
// Ways in which tensors are aligned, where a contract promises less than an allocation has: as little as promised, as an
// allocation, and mixed (trial::Condition::alignment). Chosen: host code asks whether all are, or one is.
constexpr size_t kAlignments = 4;
// Optional tensors: each doubles the calls at a shape. Chosen: with more of them a recording takes too long.
constexpr size_t kMostOptional = 3;

int64_t clipped(const contract::Dim& dim, int64_t value) {
  value = value / dim.multiple_of * dim.multiple_of;
  return std::clamp(value, dim.lowest(), dim.highest());
}

int64_t drawn(const contract::Dim& dim, Random& random) {
  static constexpr int64_t kOrdinary[] = {1,   2,   3,   5,   7,   15,  16,   17,   31,   32,
                                          33,  63,  64,  65,  96,  100, 127,  128,  129,  255,
                                          256, 257, 300, 511, 512, 513, 1000, 1023, 1024, 1025};
  if (random.between(0, 2) == 0) return kOrdinary[random.between(0, std::size(kOrdinary) - 1)];
  const int64_t span = dim.highest() - dim.lowest() + 1;
  int64_t reach = span;
  for (int64_t halvings = random.between(0, 63); halvings > 0 && reach > 1; --halvings)
    reach = (reach + 1) / 2;
  return dim.lowest() + random.between(0, reach - 1);
}

// Errors that say that a launch is illegal: an invalid value or configuration, too many resources, too large
// a cooperative launch, an invalid cluster. Others (memory that ran out, say) are no fault of the launch.
bool is_refusal(int error) {
  constexpr int kIllegal[] = {1, 9, 701, 720, 912};
  return std::find(std::begin(kIllegal), std::end(kIllegal), error) != std::end(kIllegal);
}

// An integer whose range has so few values is tried at each: it may choose between kernels. Chosen.
constexpr double kFewValues = 4;
// Combinations of the scalars of which each value is tried, at one shape. Chosen: with more of them a recording takes too long.
constexpr size_t kMostCombinations = 32;

// Of a scalar of which each value is tried; empty: its range is too wide for that.
std::vector<double> values_of(const contract::ScalarSpec& scalar) {
  if (!scalar.is_range()) return scalar.values;
  std::vector<double> values;
  if (!contract::is_float(scalar.dtype) && scalar.high - scalar.low < kFewValues)
    for (double value = scalar.low; value <= scalar.high; ++value) values.push_back(value);
  return values;
}

// How the others are chosen together: all low, all high, all between, and for each binary digit of their numbers those high whose
// number has it, and those that have it not. So of any two there is a choice where one is high and the other low. Between its
// ends each has a number of its own: a launch that passes the ends on, and nothing else, is no launch that passes a constant.
enum Choice : size_t { kAllLow, kAllHigh, kAllBetween, kByDigits };

size_t choices_of_ranges(size_t scalars) {
  if (scalars == 0) return 1;
  size_t digits = 0;
  while ((size_t{1} << digits) < scalars) ++digits;
  return kByDigits + 2 * digits;
}

double chosen(const contract::ScalarSpec& scalar, size_t number, size_t choice) {
  if (choice == kAllBetween) {
    const double share = 1 / (2.3 + static_cast<double>(number));
    const double between = scalar.low + share * (scalar.high - scalar.low);
    return contract::is_float(scalar.dtype) ? between : std::floor(between);
  }
  bool high = choice == kAllHigh;
  if (choice >= kByDigits) {
    const size_t digit = (choice - kByDigits) / 2, wanted = (choice - kByDigits) % 2;
    high = (number >> digit & 1) == wanted;
  }
  return high ? scalar.high : scalar.low;
}

subject::RunnerOptions recording(const RelationOptions& options) {
  subject::RunnerOptions runner = options.runner;
  runner.record = true;
  runner.timeout = std::min(runner.timeout, options.seconds);
  return runner;
}

void gap(Relation& relation, std::string text) {
  if (relation.gaps.empty()) relation.gaps.push_back(std::move(text));
}

}  // namespace

std::vector<Shape> RecordedShapes::some(int count, uint64_t seed) {
  std::vector<Shape> shapes;
  const auto add = [&](const std::function<int64_t(const contract::Dim&)>& value) {
    Shape shape;
    for (const contract::Dim& dim : contract_.dims) shape[dim.name] = clipped(dim, value(dim));
    shape = trial::near_legal(contract_, shape);
    // What a device cannot hold, made smaller until it can: where 32 bits end, host code goes wrong, and most shapes that
    // are drawn are far below that.
    if (!fits(shape))
      shape =
          trial::fit(contract_, std::move(shape), std::numeric_limits<double>::infinity(), kMostRecordedBytes)
              .shape;
    if (fits(shape) && seen_.insert(shape).second) shapes.push_back(std::move(shape));
  };
  const auto low = [](const contract::Dim& dim) { return dim.lowest(); };
  const auto high = [](const contract::Dim& dim) { return dim.highest(); };
  add(low);
  add(high);
  for (const contract::Dim& one : contract_.dims) {
    add([&](const contract::Dim& dim) { return dim.name == one.name ? high(dim) : low(dim); });
    add([&](const contract::Dim& dim) { return dim.name == one.name ? low(dim) : high(dim); });
    add([&](const contract::Dim& dim) { return dim.name == one.name ? high(dim) : 100; });
  }
  Random random(seed);
  for (int tries = 0; static_cast<int>(shapes.size()) < count && tries < 20 * count; ++tries)
    add([&](const contract::Dim& dim) { return drawn(dim, random); });
  return shapes;
}

std::vector<Shape> RecordedShapes::listed() {
  std::vector<Shape> shapes;
  for (const Shape& shape : contract_.shapes)
    if (fits(shape) && seen_.insert(shape).second) shapes.push_back(shape);
  return shapes;
}

std::vector<Shape> RecordedShapes::giant() {
  std::vector<Shape> shapes;
  for (Shape& shape : trial::giant_shapes(contract_, kLeastRecordedGiant, kMostRecordedBytes))
    if (fits(shape) && seen_.insert(shape).second) shapes.push_back(std::move(shape));
  return shapes;
}

std::vector<Shape> RecordedShapes::about(const SizeConstants& constants) {
  const trial::Thresholds thresholds(contract_, constants);
  std::vector<Shape> shapes;
  const auto add = [&](const Shape& shape) {
    if (shapes.size() < kMostAboutConstants && fits(shape) && seen_.insert(shape).second)
      shapes.push_back(shape);
  };
  for (const contract::Dim& dim : contract_.dims)
    for (const int64_t value : thresholds.values(dim))
      for (const int64_t others : {int64_t{1}, kOrdinaryDim}) {
        Shape shape;
        for (const contract::Dim& one : contract_.dims)
          shape[one.name] = one.name == dim.name ? value : clipped(one, others);
        if (const auto legal = contract::legal_shape(contract_, shape, dim.name)) add(*legal);
      }
  for (const auto reach : {trial::Thresholds::Reach::ByProductsOnly, trial::Thresholds::Reach::ByADim})
    for (const Shape& shape : thresholds.products(reach)) add(shape);
  for (const Shape& shape : thresholds.pairs()) add(shape);
  return shapes;
}

std::vector<Shape> RecordedShapes::all(int64_t most) const {
  if (contract_.only_listed_shapes) return contract_.shapes;
  std::vector<Shape> shapes = {{}};
  for (const contract::Dim& dim : contract_.dims) {
    const int64_t values = (dim.highest() - dim.lowest()) / dim.multiple_of + 1;
    if (values <= 0 || values > most / static_cast<int64_t>(shapes.size())) return {};
    std::vector<Shape> more;
    for (const Shape& shape : shapes)
      for (int64_t i = 0; i < values; ++i) {
        more.push_back(shape);
        more.back()[dim.name] = dim.lowest() + i * dim.multiple_of;
      }
    shapes = std::move(more);
  }
  return shapes;
}

bool RecordedShapes::fits(const Shape& shape) const {
  if (!contract_.check_shape(shape)) return false;
  const auto size = trial::size_of(contract_, shape);
  return size && size->bytes < kMostRecordedBytes;
}

bool has_other_scalars(const Contract& contract) {
  return std::any_of(contract.scalars.begin(), contract.scalars.end(),
                     [](const contract::ScalarSpec& scalar) { return values_of(scalar).empty(); });
}

Recorder::Recorder(const Contract& contract, const subject::Subject& subject, const RelationOptions& options)
    : contract_(contract), runner_(contract, subject, recording(options)) {
  for (const contract::TensorSpec& tensor : contract.tensors)
    if (tensor.optional) optional_.push_back(contract::presence_of(tensor.name));
  for (const contract::ScalarSpec& scalar : contract.scalars) {
    if (std::find(optional_.begin(), optional_.end(), scalar.name) != optional_.end()) continue;
    const size_t values = values_of(scalar).size();
    (values > 0 ? listed_ : ranges_).push_back(&scalar);
    if (combinations_ <= kMostCombinations) combinations_ *= std::max<size_t>(values, 1);
  }
}

std::vector<RecordedCall> Recorder::record(const Shape& shape, Relation& relation) {
  std::vector<RecordedCall> calls;
  const size_t alignments = trial::may_be_better_aligned(contract_) ? kAlignments : 1;
  const size_t choices_of_tensors = size_t{1} << std::min(optional_.size(), kMostOptional);
  const size_t choices = choices_of_ranges(ranges_.size());
  for (size_t given = 0; given < choices_of_tensors; ++given)
    for (size_t listed = 0; listed < std::min(combinations_, kMostCombinations); ++listed)
      for (size_t choice = 0; choice < std::max(choices, alignments); ++choice)
        if (auto call =
                record(shape, relation, listed, choice % choices, (choice + listed) % alignments, given))
          calls.push_back(std::move(*call));
  return calls;
}

std::string Recorder::problem() const {
  if (optional_.size() > kMostOptional)
    return fmt::format("the contract has {} optional tensors", optional_.size());
  if (combinations_ > kMostCombinations)
    return fmt::format("the values of the contract's scalars can be combined in {} ways", combinations_);
  return "";
}

std::optional<RecordedCall> Recorder::record(const Shape& shape, Relation& relation, size_t listed,
                                             size_t choice, uint64_t alignment, size_t given) {
  contract::Bindings bindings;
  bindings.shape = shape;
  const auto bind = [&](const contract::ScalarSpec& scalar, double value) {
    bindings.scalars[scalar.name] = contract::Scalar::of(scalar.dtype, value);
  };
  for (const contract::ScalarSpec* scalar : listed_) {
    const std::vector<double> values = values_of(*scalar);
    bind(*scalar, values[listed % values.size()]);
    listed /= values.size();
  }
  for (size_t i = 0; i < ranges_.size(); ++i) bind(*ranges_[i], chosen(*ranges_[i], i, choice));
  for (size_t i = 0; i < optional_.size(); ++i)
    bindings.scalars[optional_[i]] =
        contract::Scalar::of_int(contract::DType::boolean, (given >> i & 1) == 0);
  for (const contract::TensorSpec* input : contract_.inputs()) bindings.inputs[input->name] = nullptr;
  trial::Condition condition;
  condition.alignment = alignment;
  const subject::Observation seen = runner_.record(bindings, condition);
  const int returned = seen.calls.empty() ? 0 : seen.calls.front().returned;
  const int code = seen.error_code != 0 ? seen.error_code : returned;
  if (code != 0) {
    const std::string error =
        seen.error.empty() ? fmt::format("the host code returned {}", code) : seen.error;
    if (is_refusal(code))
      relation.refused.push_back({shape, error, code});
    else
      gap(relation, fmt::format("the host code failed at {}: {}", contract::to_string(shape), error));
    return std::nullopt;
  }
  if (seen.outcome != subject::CallOutcome::Ended) {
    gap(relation,
        fmt::format("the host code could not be run at {}: {}", contract::to_string(shape), seen.error));
    return std::nullopt;
  }
  if (seen.recorded_left_out) {
    gap(relation,
        fmt::format("the host code makes more calls than can be recorded at {}", contract::to_string(shape)));
    return std::nullopt;
  }
  RecordedCall record{shape, {}, given_in(contract_, bindings.scalars)};
  for (const protocol::Event& event : seen.recorded) add_operation(record, event, contract_, condition);
  return record;
}

}  // namespace assay::prove
