#include "prove/relation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>

#include "base/random.h"
#include "contract/legal_shape.h"
#include "protocol/event.h"
#include "trial/giant.h"
#include "trial/shapes.h"
#include "trial/thresholds.h"
#include "trial/trial.h"

namespace assay::prove {

using contract::Contract;
using contract::Shape;

namespace {

constexpr double kMostBytes = 100e9;  // the virtual device holds 141 GB
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kLeastGiant = 0x1p18;  // elements: smaller shapes are among the others
constexpr size_t kEnoughRefusals = 8;   // each costs a new worker
// Shapes about the constants of the code. Chosen: as many as the others, since a recording takes a millisecond.
constexpr size_t kMostAboutConstants = 200;
constexpr int64_t kOrdinaryDim = 100;
// Ways in which tensors are aligned, where a contract promises less than an allocation has: as little as promised, as an
// allocation, and mixed (trial::Condition::alignment). Chosen: host code asks whether all are, or one is.
constexpr size_t kAlignments = 4;
// How often the relation is inferred anew with shapes that it did not hold at, and with how many of them each time.
// Chosen: host code has about as many paths, and most of the shapes stay for checking.
constexpr int kMostInferences = 8;
constexpr size_t kMostAdded = 4;

using RecordedLaunch = protocol::RecordedLaunchEvent;

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- shapes

int64_t clipped(const contract::Dim& dim, int64_t value) {
  value = value / dim.multiple_of * dim.multiple_of;
  return std::clamp(value, dim.lowest(), dim.highest());
}

// Corners, each dim alone at its ends, ordinary numbers, numbers about multiples of likely tiles, and the
// whole range evenly by magnitude.
class Shapes {
 public:
  explicit Shapes(const Contract& contract) : contract_(contract) {}

  std::vector<Shape> some(int count, uint64_t seed) {
    std::vector<Shape> shapes;
    const auto add = [&](const std::function<int64_t(const contract::Dim&)>& value) {
      Shape shape;
      for (const contract::Dim& dim : contract_.dims) shape[dim.name] = clipped(dim, value(dim));
      shape = trial::near_legal(contract_, std::move(shape));
      // What a device cannot hold, made smaller until it can: where 32 bits end, host code goes wrong, and most shapes that
      // are drawn are far below that.
      if (!fits(shape)) shape = trial::fit(contract_, std::move(shape), kNoLimit, kMostBytes).shape;
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

  // The largest that a device holds, and those where 31 and 32 bits end.
  std::vector<Shape> giant() {
    std::vector<Shape> shapes;
    for (Shape& shape : trial::giant_shapes(contract_, kLeastGiant, kMostBytes))
      if (fits(shape) && seen_.insert(shape).second) shapes.push_back(std::move(shape));
    return shapes;
  }

  // About the constants of the code, where host code may take another path: each dim alone, the others small or
  // ordinary; and two dims together.
  std::vector<Shape> about(const SizeConstants& constants) {
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
    for (const Shape& shape : thresholds.products()) add(shape);
    for (const Shape& shape : thresholds.pairs()) add(shape);
    return shapes;
  }

  // Every shape, where there are at most so many.
  std::vector<Shape> all(int64_t most) {
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

  bool fits(const Shape& shape) const {
    if (!contract_.check_shape(shape)) return false;
    const auto size = trial::size_of(contract_, shape);
    return size && size->bytes < kMostBytes;
  }

 private:
  static int64_t drawn(const contract::Dim& dim, Random& random) {
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

  const Contract& contract_;
  std::set<Shape> seen_;
};

// ---- recording

// Errors that say that a launch is illegal: an invalid value or configuration, too many resources, too large
// a cooperative launch, an invalid cluster. Others (memory that ran out, say) are no fault of the launch.
bool is_refusal(int error) {
  constexpr int kIllegal[] = {1, 9, 701, 720, 912};
  return std::find(std::begin(kIllegal), std::end(kIllegal), error) != std::end(kIllegal);
}

class Recorder {
 public:
  Recorder(const Contract& contract, const subject::Subject& subject, const RelationOptions& options)
      : contract_(contract), runner_(contract, subject, recording(options)) {}

  // A call for each choice of the scalars, and for some alignments of the tensors: what depends on them differs between calls
  // at one shape, and so has no expression over the dims. Fewer calls where the shape could not be recorded; `relation` says why.
  std::vector<RecordedCall> record(const Shape& shape, Relation& relation) {
    std::vector<RecordedCall> calls;
    const size_t alignments = trial::may_be_better_aligned(contract_) ? kAlignments : 1;
    for (size_t choice = 0; choice < std::max(choices(), alignments); ++choice)
      if (auto call = record(shape, relation, choice % choices(), choice % alignments))
        calls.push_back(std::move(*call));
    return calls;
  }

 private:
  // All scalars low, all high, every other one high; and each value of those that have a list.
  size_t choices() const {
    size_t most = contract_.scalars.empty() ? 1 : contract_.scalars.size() == 1 ? 2 : 4;
    for (const contract::ScalarSpec& scalar : contract_.scalars) most = std::max(most, scalar.values.size());
    return most;
  }

  static double chosen(const contract::ScalarSpec& scalar, size_t index, size_t choice) {
    if (!scalar.is_range()) return scalar.values[choice % scalar.values.size()];
    const bool high =
        choice % 4 == 1 || (choice % 4 == 2 && index % 2 == 1) || (choice % 4 == 3 && index % 2 == 0);
    return high ? scalar.high : scalar.low;
  }

  std::optional<RecordedCall> record(const Shape& shape, Relation& relation, size_t choice,
                                     uint64_t alignment) {
    contract::Bindings bindings;
    bindings.shape = shape;
    for (size_t i = 0; i < contract_.scalars.size(); ++i) {
      const contract::ScalarSpec& scalar = contract_.scalars[i];
      bindings.scalars[scalar.name] = contract::Scalar::of(scalar.dtype, chosen(scalar, i, choice));
    }
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
          fmt::format("the host code asks for more than can be recorded at {}", contract::to_string(shape)));
      return std::nullopt;
    }
    RecordedCall record{shape, {}};
    for (const protocol::Event& event : seen.recorded) add_operation(record, event, contract_, condition);
    return record;
  }

  static subject::RunnerOptions recording(const RelationOptions& options) {
    subject::RunnerOptions runner = options.runner;
    runner.record = true;
    runner.timeout = std::min(runner.timeout, options.seconds);
    return runner;
  }

  static void gap(Relation& relation, std::string text) {
    if (relation.gaps.empty()) relation.gaps.push_back(std::move(text));
  }

  const Contract& contract_;
  subject::Runner runner_;
};

std::string signature(const RecordedCall& record) {
  std::string text;
  for (const Operation& operation : record.operations) {
    const auto* launch = std::get_if<RecordedLaunch>(&operation);
    text += fmt::format("{}:{}:{};", operation.index(), launch ? launch->kernel : "",
                        launch ? launch->words.size() : 0);
  }
  return text;
}

// ---- which shapes a case is for

// Conditions that hold for all shapes of a case and together for none of the others: on one dim, or that one dim is
// a multiple of something and another (or the same) has a range, as host code has for vectors. The end of a range
// lies somewhere between shapes that were seen: it is found by halving, running the host code each time.
class Separation {
 public:
  using Belongs = std::function<bool(const Shape&)>;
  Separation(const Contract& contract, std::vector<const Shape*> own, std::vector<const Shape*> others,
             Belongs belongs)
      : contract_(contract), own_(std::move(own)), others_(std::move(others)), belongs_(std::move(belongs)) {}

  std::vector<Condition> run() {
    if (others_.empty()) return {};
    if (auto found = any_range(nullptr)) return {*found};
    std::vector<Condition> divisibility;
    for (const contract::Dim& dim : contract_.dims)
      for (const int64_t by : kDivisors)
        for (const auto kind : {Condition::Kind::Multiple, Condition::Kind::NoMultiple}) {
          const Condition condition{kind, dim.name, by};
          if (separates(condition)) return {condition};
          divisibility.push_back(condition);
        }
    // Of the shapes that a condition leaves, a range: the weakest condition first, so that what only happens to be
    // true of the shapes that were seen is not taken.
    const std::vector<const Shape*> all = others_;
    for (const Condition& condition : divisibility) {
      if (!holds_for_own(condition)) continue;
      others_ = all;
      std::erase_if(others_, [&](const Shape* s) { return !condition.holds(*s); });
      if (others_.size() == all.size()) continue;
      if (auto found = any_range(&condition)) return {condition, *found};
    }
    others_ = all;
    return necessary();
  }

 private:
  std::optional<Condition> any_range(const Condition* within) {
    for (const contract::Dim& dim : contract_.dims)
      for (const bool at_least : {true, false})
        if (auto found = range(dim, at_least, within)) return found;
    return std::nullopt;
  }

  bool holds_for_own(const Condition& condition) const {
    return std::all_of(own_.begin(), own_.end(), [&](const Shape* s) { return condition.holds(*s); });
  }

  // Conditions that hold for the shapes of the case, though for some others as well: for each dim the multiples that it
  // is restricted to, and the ends of its range among these.
  std::vector<Condition> necessary() {
    std::vector<Condition> multiples, ends;
    for (const contract::Dim& dim : contract_.dims) {
      const auto multiple = multiple_of(dim);
      for (const bool at_least : {true, false})
        if (auto end = end_of(dim, at_least, multiple ? &*multiple : nullptr)) ends.push_back(*end);
      if (multiple) multiples.push_back(*multiple);
    }
    std::vector<Condition> found;
    for (const Condition& end : ends)
      if (nothing_beyond(end, ends, multiples)) found.push_back(end);
    for (const Condition& multiple : multiples) {
      const bool one_value = std::any_of(found.begin(), found.end(), [&](const Condition& end) {
        return end.kind == Condition::Kind::AtLeast &&
               std::count(found.begin(), found.end(),
                          Condition{Condition::Kind::AtMost, end.dim, end.value}) > 0 &&
               end.dim == multiple.dim;
      });
      if (!one_value) found.insert(found.begin(), multiple);
    }
    return found;
  }

  // The largest power of two that the dim must be a multiple of: half of it away from a shape of the case is none.
  std::optional<Condition> multiple_of(const contract::Dim& dim) const {
    for (auto by = kDivisors.rbegin(); by != kDivisors.rend(); ++by) {
      const Condition condition{Condition::Kind::Multiple, dim.name, *by};
      if (dim.multiple_of % *by == 0 || !holds_for_own(condition)) continue;
      const std::vector<Shape> shapes = some_own();
      if (std::none_of(shapes.begin(), shapes.end(), [&](const Shape& shape) {
            return belongs_with(shape, dim, shape.at(dim.name) + *by / 2) ||
                   belongs_with(shape, dim, shape.at(dim.name) - *by / 2);
          }))
        return condition;
    }
    return std::nullopt;
  }

  // The end of the values of a dim that the case is for, on the line through its extreme shape.
  std::optional<Condition> end_of(const contract::Dim& dim, bool at_least, const Condition* within) const {
    const Shape& inside = *extreme(own_, dim.name, at_least);
    int64_t in = inside.at(dim.name), out = at_least ? dim.lowest() : dim.highest();
    if (in == out || belongs_with(inside, dim, out)) return std::nullopt;
    while (const auto middle = between(inside, dim, in, out, within))
      (belongs_(*middle) ? in : out) = middle->at(dim.name);
    return Condition{at_least ? Condition::Kind::AtLeast : Condition::Kind::AtMost, dim.name, in};
  }

  // Whether no shape beyond the end is of the case, as far as some are tried: the next ones and one further on, on the
  // lines through shapes of the case, and where other dims are at the ends of their ranges. What is for products of
  // dims, or for all but some sizes, has no end that passes this.
  bool nothing_beyond(const Condition& end, const std::vector<Condition>& ends,
                      const std::vector<Condition>& multiples) const {
    const contract::Dim& dim = *contract_.dim(end.dim);
    const bool at_least = end.kind == Condition::Kind::AtLeast;
    int64_t step = dim.multiple_of;
    for (const Condition& multiple : multiples)
      if (multiple.dim == end.dim) step = std::max(step, multiple.value);
    std::vector<Shape> lines = some_own();
    for (const contract::Dim& other : contract_.dims)
      for (const bool least : {true, false})
        if (other.name != end.dim) lines.push_back(*extreme(own_, other.name, least));
    for (const Condition& other : ends) {
      if (other.dim == end.dim) continue;
      lines.push_back(*extreme(own_, end.dim, at_least));
      lines.back()[other.dim] = other.value;
    }
    const int64_t limit = at_least ? dim.lowest() : dim.highest();
    const int64_t far = end.value + (limit - end.value) / 2 / step * step;
    for (const Shape& line : lines)
      for (const int64_t steps : {1, 2, 3, 5})
        if (belongs_with(line, dim, at_least ? end.value - steps * step : end.value + steps * step) ||
            belongs_with(line, dim, far + (at_least ? -steps : steps) * step))
          return false;
    return true;
  }

  bool belongs_with(Shape shape, const contract::Dim& dim, int64_t value) const {
    shape[dim.name] = value;
    return dim.contains(value) && contract_.check_shape(shape) && belongs_(shape);
  }

  std::vector<Shape> some_own() const {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < std::min(own_.size(), kMostTried); ++i)
      shapes.push_back(*own_[i * own_.size() / std::min(own_.size(), kMostTried)]);
    return shapes;
  }

  bool separates(const Condition& condition) const {
    return holds_for_own(condition) &&
           std::none_of(others_.begin(), others_.end(), [&](const Shape* s) { return condition.holds(*s); });
  }

  // The shape whose value of the dim is the least (or the greatest).
  static const Shape* extreme(const std::vector<const Shape*>& shapes, const std::string& dim, bool least) {
    return *std::min_element(shapes.begin(), shapes.end(), [&](const Shape* a, const Shape* b) {
      return least ? a->at(dim) < b->at(dim) : a->at(dim) > b->at(dim);
    });
  }

  // `within`: what the shapes that the range is about satisfy besides.
  std::optional<Condition> range(const contract::Dim& dim, bool at_least, const Condition* within) {
    const Shape& inside = *extreme(own_, dim.name, at_least);
    int64_t in = inside.at(dim.name), out = extreme(others_, dim.name, !at_least)->at(dim.name);
    if (at_least ? out >= in : out <= in) return std::nullopt;
    while (const auto middle = between(inside, dim, in, out, within))
      (belongs_(*middle) ? in : out) = middle->at(dim.name);
    return Condition{at_least ? Condition::Kind::AtLeast : Condition::Kind::AtMost, dim.name, in};
  }

  // A shape about halfway; none: there is no such shape between the two.
  std::optional<Shape> between(const Shape& inside, const contract::Dim& dim, int64_t in, int64_t out,
                               const Condition* within) const {
    Shape middle = inside;
    const int64_t half = (in + (out - in) / 2) / dim.multiple_of * dim.multiple_of;
    for (int64_t away = 0; away <= kDivisors.back(); ++away)
      for (const int64_t value : {half - away * dim.multiple_of, half + away * dim.multiple_of}) {
        middle[dim.name] = value;
        if (std::min(in, out) < value && value < std::max(in, out) && (!within || within->holds(middle)) &&
            contract_.check_shape(middle))
          return middle;
      }
    return std::nullopt;
  }

  // Shapes that a condition is tried at. Chosen: the shapes recorded later show what holds for these by chance.
  static constexpr size_t kMostTried = 6;
  static constexpr std::array<int64_t, 8> kDivisors = {2, 4, 8, 16, 32, 64, 128, 256};

  const Contract& contract_;
  std::vector<const Shape*> own_, others_;
  Belongs belongs_;
};

// ---- inference

using Numbers = std::function<std::optional<int64_t>(const RecordedLaunch&)>;

class Inference {
 public:
  Inference(const Contract& contract, Relation& relation) : contract_(contract), relation_(relation) {}

  Case one_case(const std::vector<const RecordedCall*>& records) {
    Case found;
    found.shapes = records.size();
    found.example = records.front()->shape;
    for (size_t i = 0; i < records.front()->operations.size(); ++i) {
      const Operation& first = records.front()->operations[i];
      if (std::holds_alternative<RecordedLaunch>(first))
        found.launches.push_back(launch(records, i));
      else
        note_written(records, i, found);
    }
    return found;
  }

 private:
  static const RecordedLaunch& launch_of(const RecordedCall& record, size_t which) {
    return std::get<RecordedLaunch>(record.operations[which]);
  }

  // Parameters that are neither a constant nor a dim, each once.
  static std::vector<ExprPtr> computed(const Launch& launch) {
    std::map<std::string, ExprPtr> found;
    for (const auto* numbers : {&launch.words, &launch.pairs})
      for (const auto& [at, expr] : *numbers)
        if (expr->op != Expr::Op::Literal && expr->op != Expr::Op::Dim) found[text(*expr)] = expr;
    std::vector<ExprPtr> result;
    for (const auto& [name, expr] : found) result.push_back(expr);
    return result;
  }

  Launch launch(const std::vector<const RecordedCall*>& records, size_t which) {
    std::vector<ExprPtr> known;
    const auto fitted = [&](const Numbers& take) -> ExprPtr {
      std::vector<Point> points;
      for (const RecordedCall* record : records) {
        const auto value = take(launch_of(*record, which));
        if (!value) return nullptr;
        points.push_back({&record->shape, *value});
      }
      return fit(contract_, points, known);
    };
    const RecordedLaunch& first = launch_of(*records.front(), which);
    Launch launch;
    launch.kernel = first.kernel;
    launch.static_shared = number(first.static_shared);
    launch.shared_limit = fitted([](const RecordedLaunch& e) -> std::optional<int64_t> {
      const int64_t limit = number(e.shared_limit);
      return limit == 0 ? std::nullopt : std::optional(limit);
    });
    launch.cooperative = first.cooperative;
    launch.clusters = has_clusters(first);
    const auto words = static_cast<uint32_t>(first.words.size());
    launch.parameter_bytes = 4 * words;
    for (uint32_t at = 0; at < 4 * words; at += 4) {
      if (const auto place = pointer_at(first, at)) {
        const std::string array = place->first;
        const auto offset = [&, at](const RecordedLaunch& e) -> std::optional<int64_t> {
          const auto here = pointer_at(e, at);
          if (!here || here->first != array) return std::nullopt;
          return here->second;
        };
        const bool always = std::all_of(records.begin(), records.end(), [&](const RecordedCall* r) {
          return offset(launch_of(*r, which)).has_value();
        });
        if (always) launch.pointers[at] = {array, fitted(offset)};
        continue;
      }
      if (at >= 4 && pointer_at(first, at - 4)) continue;  // the upper half of an address
      launch.words[at] = fitted([at](const RecordedLaunch& e) { return word(e, at); });
      if (at % 8 == 0 && at + 8 <= 4 * words)
        launch.pairs[at] = fitted([at](const RecordedLaunch& e) { return pair(e, at); });
    }
    std::erase_if(launch.words, [](const auto& item) { return !item.second; });
    std::erase_if(launch.pairs, [](const auto& item) { return !item.second; });
    known = computed(launch);
    for (size_t axis = 0; axis < 3; ++axis) {
      launch.grid[axis] = fitted([&](const RecordedLaunch& e) { return int64_t{e.grid[axis]}; });
      launch.block[axis] = fitted([&](const RecordedLaunch& e) { return int64_t{e.block[axis]}; });
    }
    launch.dynamic_shared = fitted([](const RecordedLaunch& e) { return number(e.dynamic_shared); });
    return launch;
  }

  void note_written(const std::vector<const RecordedCall*>& records, size_t which, Case& found) {
    const protocol::RecordedPlace& to = destination(records.front()->operations[which]);
    if (to.is_host)
      relation_.gaps.push_back("the host code reads results back, and what it launches may depend on them");
    if (to.is_host || to.label.empty()) return;
    found.filled.push_back(to.label);
    Fill fill{to.label, nullptr, nullptr};
    std::vector<Point> offsets, sizes;
    for (const RecordedCall* record : records) {
      const Operation& operation = record->operations[which];
      const auto bytes = filled_bytes(operation);
      if (destination(operation).label != to.label || !bytes) break;
      offsets.push_back({&record->shape, number(destination(operation).offset)});
      sizes.push_back({&record->shape, *bytes});
    }
    if (offsets.size() == records.size()) {
      fill.offset = fit(contract_, offsets);
      fill.bytes = fit(contract_, sizes);
    }
    found.fills.push_back(std::move(fill));
  }

  const Contract& contract_;
  Relation& relation_;
};

}  // namespace

std::vector<std::string> Launch::text() const {
  std::vector<std::string> lines;
  for (const Condition& condition : when) lines.push_back("if " + condition.text());
  const auto say = [&](const std::string& name, const ExprPtr& expr, const char* usual) {
    const std::string value = expr ? prove::text(*expr) : "anything";
    if (value != usual) lines.push_back(fmt::format("{} = {}", name, value));
  };
  for (size_t axis = 0; axis < 3; ++axis)
    say(fmt::format("grid.{}", "xyz"[axis]), grid[axis], axis ? "1" : "");
  for (size_t axis = 0; axis < 3; ++axis)
    say(fmt::format("block.{}", "xyz"[axis]), block[axis], axis ? "1" : "");
  say("dynamic shared memory", dynamic_shared, "0");
  for (const auto& [at, pointer] : pointers) {
    const std::string offset = pointer.offset ? prove::text(*pointer.offset) : "anything";
    lines.push_back(fmt::format("parameter {} -> {}{}", at, pointer.array,
                                offset == "0" ? "" : fmt::format(" + {} bytes", offset)));
  }
  for (uint32_t at = 0; at < parameter_bytes; at += 4) {
    if (pointers.contains(at) || (at >= 4 && pointers.contains(at - 4))) continue;
    const auto known = words.find(at);
    if (known != words.end())
      lines.push_back(fmt::format("parameter {} = {}", at, prove::text(*known->second)));
  }
  return lines;
}

namespace {

// The relation of some recorded calls: what they launch, and where which.
void infer_from(const std::vector<const RecordedCall*>& records, const Contract& contract, Recorder& recorder,
                Relation& relation) {
  relation.cases.clear();
  std::map<std::string, std::vector<const RecordedCall*>> by_signature;
  for (const RecordedCall* record : records) by_signature[signature(*record)].push_back(record);
  Inference inference(contract, relation);
  for (const auto& [key, same] : by_signature) {
    relation.cases.push_back(inference.one_case(same));
    std::vector<const Shape*> own, others;
    for (const RecordedCall* record : records)
      (signature(*record) == key ? own : others).push_back(&record->shape);
    const auto belongs = [&, &key = key](const Shape& shape) {
      const std::vector<RecordedCall> calls = recorder.record(shape, relation);
      return std::any_of(calls.begin(), calls.end(),
                         [&](const RecordedCall& call) { return signature(call) == key; });
    };
    const std::vector<Condition> when = Separation(contract, own, others, belongs).run();
    relation.cases.back().when = when;
    for (Launch& launch : relation.cases.back().launches) launch.when = when;
  }
}

}  // namespace

Result<Relation> infer(const Contract& contract, const subject::Subject& subject,
                       const RelationOptions& options) {
  Relation relation;
  Shapes shapes(contract);
  Recorder recorder(contract, subject, options);
  const double until = clock_seconds() + options.seconds;
  const std::vector<Shape> every = shapes.all(options.exhaustive);
  std::vector<RecordedCall> records;
  const auto record_all = [&](const std::vector<Shape>& some) {
    for (const Shape& shape : some) {
      if (clock_seconds() > until) break;
      for (RecordedCall& record : recorder.record(shape, relation)) records.push_back(std::move(record));
      ++relation.recorded;
    }
  };
  record_all(shapes.giant());
  record_all(shapes.some(options.fitted, 7));
  if (relation.refused.size() <= kEnoughRefusals) record_all(shapes.about(options.constants));
  // What fits few shapes is too easily found.
  if (clock_seconds() > until && relation.gaps.empty())
    relation.gaps.push_back(fmt::format("the host code could be run at {} shapes only in {:g} s",
                                        relation.recorded, options.seconds));
  const size_t fitted = records.size();
  relation.all = !every.empty();
  for (const Shape& shape : every.empty() ? shapes.some(options.checked, 77) : every) {
    if (!shapes.fits(shape) || clock_seconds() > until) {
      relation.all = false;
      continue;
    }
    if (relation.refused.size() > kEnoughRefusals || !relation.gaps.empty()) {
      relation.all = false;
      break;
    }
    ++relation.recorded;
    for (RecordedCall& call : recorder.record(shape, relation)) records.push_back(std::move(call));
  }
  std::vector<const RecordedCall*> used, unused;
  for (const RecordedCall& record : records)
    (static_cast<size_t>(&record - records.data()) < fitted ? used : unused).push_back(&record);
  for (int inference = 1;; ++inference) {
    infer_from(used, contract, recorder, relation);
    std::vector<const RecordedCall*> added;
    std::string how;  // the first deviates
    for (const RecordedCall* call : unused) {
      if (added.size() == kMostAdded || !relation.gaps.empty()) break;
      const std::string difference = deviation(relation, *call);
      if (difference.empty()) continue;
      if (added.empty())
        how = fmt::format("no launch relation was found that also holds at {}: {}",
                          contract::to_string(call->shape), difference);
      added.push_back(call);
    }
    if (added.empty()) break;
    if (inference == kMostInferences || clock_seconds() > until) {
      relation.gaps.push_back(how);
      break;
    }
    used.insert(used.end(), added.begin(), added.end());
    std::erase_if(unused, [&](const RecordedCall* call) {
      return std::find(added.begin(), added.end(), call) != added.end();
    });
  }
  for (const Refusal& refusal : relation.refused)
    if (relation.gaps.empty() && is_legal(relation, refusal.shape))
      relation.gaps.push_back(
          fmt::format("no launch relation was found that also holds at {}, where the launch is refused",
                      contract::to_string(refusal.shape)));
  return relation;
}

}  // namespace assay::prove
