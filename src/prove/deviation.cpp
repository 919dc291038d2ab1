// Whether a call does what the launch relation says. Proofs depend on the relation, which is inferred from some of the
// shapes only, so every later run of the host code is compared with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/symbol.h"
#include "prove/execute.h"

namespace assay::prove {

namespace {

using protocol::RecordedLaunchEvent;

// The first difference between a call and a case; empty: there is none.
class CallComparison {
 public:
  explicit CallComparison(const RecordedCall& call) : call_(call) {}

  std::string with(const Case& one) {
    size_t launches = 0, fills = 0;
    for (const Operation& operation : call_.operations) {
      if (const auto* launch = std::get_if<RecordedLaunchEvent>(&operation)) {
        if (launches >= one.launches.size())
          return fmt::format("{} is launched as well", plain_name(launch->kernel));
        compare(one.launches[launches++], *launch);
      } else if (destination(operation).is_host) {
        return "results are read back";
      } else if (!destination(operation).label.empty()) {
        if (fills >= one.fills.size())
          return fmt::format("{} is filled or copied to as well", destination(operation).label);
        compare(one.fills[fills++], operation, launches);
      }
      if (!difference_.empty()) return difference_;
    }
    if (launches < one.launches.size())
      return fmt::format("{} is not launched", plain_name(one.launches[launches].kernel));
    if (fills < one.fills.size()) return fmt::format("{} is not filled or copied to", one.fills[fills].array);
    contract::Shape known = call_.shape;
    known.insert(call_.given.begin(), call_.given.end());
    for (const Condition& condition : one.when)
      if (!condition.holds(known)) return fmt::format("this is expected only if {}", condition.text());
    return "";
  }

 private:
  void compare(const std::string& what, const ExprPtr& expr, int64_t value) {
    if (!expr || !difference_.empty()) return;
    const auto expected = evaluate(*expr, call_.shape);
    if (expected == value) return;
    const std::string formula = text(*expr), of = expected ? fmt::format("{}", *expected) : "no value";
    difference_ = fmt::format("{} is {}, not {}{}", what, value, formula, of == formula ? "" : " = " + of);
  }

  void differ(bool different, const std::string& text) {
    if (different && difference_.empty()) difference_ = text;
  }

  // Where an array's memory is.
  const std::string& memory_of(const std::string& array) const {
    const auto found = call_.lies_in.find(array);
    return found == call_.lies_in.end() ? array : found->second;
  }

  void compare_place(const std::string& what, const std::string& array, const ExprPtr& offset,
                     const std::string& label, int64_t at) {
    differ(label != array && label != memory_of(array), fmt::format("{} -> {}, not {}", what, label, array));
    if (difference_.empty()) compare("the offset of " + what, offset, at);
  }

  void compare(const Launch& launch, const RecordedLaunchEvent& event) {
    const std::string kernel = plain_name(launch.kernel);
    differ(event.kernel != launch.kernel,
           fmt::format("{} is launched, not {}", plain_name(event.kernel), kernel));
    differ(event.words.size() * 4 != launch.parameter_bytes, kernel + " has different parameters");
    differ(has_clusters(event) != launch.clusters, kernel + " has different clusters");
    differ(event.cooperative != launch.cooperative, kernel + " is launched differently");
    differ(may_overlap(call_) && !launch.overlaps, kernel + " may overlap other work of the call");
    differ(number(event.static_shared) != launch.static_shared, kernel + " has different shared memory");
    if (!difference_.empty()) return;
    for (size_t axis = 0; axis < 3; ++axis) {
      compare(fmt::format("grid.{} of {}", "xyz"[axis], kernel), launch.grid[axis], event.grid[axis]);
      compare(fmt::format("block.{} of {}", "xyz"[axis], kernel), launch.block[axis], event.block[axis]);
    }
    compare("dynamic shared memory of " + kernel, launch.dynamic_shared, number(event.dynamic_shared));
    // Where the limit is not known there is none to compare.
    if (event.shared_limit != 0)
      compare("the limit of shared memory of " + kernel, launch.shared_limit, number(event.shared_limit));
    for (const auto& [at, expr] : launch.words)
      compare(fmt::format("parameter {} of {}", at, kernel), expr, word(event, at));
    for (const auto& [at, expr] : launch.pairs)
      compare(fmt::format("parameter {} of {}", at, kernel), expr, pair(event, at));
    for (const auto& [at, pointer] : launch.pointers) {
      const std::string what = fmt::format("parameter {} of {}", at, kernel);
      const auto place = pointer_at(event, at);
      differ(!place, what + " is not a device address");
      if (place) compare_place(what, pointer.array, pointer.offset, place->first, place->second);
      if (place && pointer.bytes && difference_.empty())
        compare("the size of the memory behind " + what, pointer.bytes, *allocated_at(event, at));
    }
  }

  void compare(const Fill& fill, const Operation& operation, size_t launches) {
    const protocol::RecordedPlace& to = destination(operation);
    const auto* filled = std::get_if<protocol::RecordedFillEvent>(&operation);
    differ(fill.after != launches, fmt::format("{} is filled at another point of the call", fill.array));
    differ(fill.zeros && !(filled && filled->zeros), fmt::format("{} is not filled with zeros", fill.array));
    compare_place("the fill", fill.array, fill.offset, to.label, number(to.offset));
    if (!fill.bytes || !difference_.empty()) return;
    const auto bytes = filled_bytes(operation);
    differ(!bytes, fmt::format("the fill of {} has several rows", fill.array));
    if (bytes) compare("bytes of the fill of " + fill.array, fill.bytes, *bytes);
  }

  const RecordedCall& call_;
  std::string difference_;
};

std::vector<std::string> kernels_of(const Case& one) {
  std::vector<std::string> names;
  for (const Launch& launch : one.launches) names.push_back(launch.kernel);
  return names;
}

std::vector<std::string> kernels_of(const RecordedCall& call) {
  std::vector<std::string> names;
  for (const Operation& operation : call.operations)
    if (const auto* launch = std::get_if<RecordedLaunchEvent>(&operation)) names.push_back(launch->kernel);
  return names;
}

}  // namespace

bool Condition::holds(const contract::Shape& shape) const {
  const auto found = shape.find(dim);
  if (found == shape.end()) return true;  // whether a tensor was given is not said: it may have been
  const int64_t at = found->second;
  switch (kind) {
    case Kind::AtLeast:
      return at >= value;
    case Kind::AtMost:
      return at <= value;
    case Kind::Multiple:
      return at % value == 0;
    default:
      return at % value != 0;
  }
}

std::string Condition::text() const {
  if (dim.starts_with("present(")) return fmt::format("{}{}", kind == Kind::AtLeast ? "" : "not ", dim);
  switch (kind) {
    case Kind::AtLeast:
      return fmt::format("{} >= {}", dim, value);
    case Kind::AtMost:
      return fmt::format("{} <= {}", dim, value);
    case Kind::Multiple:
      return fmt::format("{} % {} == 0", dim, value);
    default:
      return fmt::format("{} % {} != 0", dim, value);
  }
}

std::string deviation(const Relation& relation, const RecordedCall& call) {
  std::string nearest;  // the difference from a case that launches the same kernels
  for (const Case& one : relation.cases) {
    const std::string difference = CallComparison(call).with(one);
    if (difference.empty()) return "";
    if (nearest.empty() && kernels_of(one) == kernels_of(call)) nearest = difference;
  }
  if (!nearest.empty()) return nearest;
  std::vector<std::string> names;
  for (const std::string& kernel : kernels_of(call)) names.push_back(plain_name(kernel));
  return names.empty() ? std::string("nothing is launched")
                       : fmt::format("{} {} launched, which it has nowhere", fmt::join(names, ", "),
                                     names.size() == 1 ? "is" : "are");
}

bool is_legal(const Relation& relation, const contract::Shape& shape) {
  const auto within = [&](const ExprPtr& expr, Int most) {
    const auto value = expr ? evaluate(*expr, shape) : std::nullopt;
    return value && *value > 0 && *value <= most;
  };
  const auto is_taken = [&](const Launch& launch) {
    Int threads = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
      if (!within(launch.grid[axis], kMostBlocks[axis]) || !within(launch.block[axis], kMostThreads[axis]))
        return false;
      threads *= *evaluate(*launch.block[axis], shape);
    }
    const auto shared = launch.dynamic_shared ? evaluate(*launch.dynamic_shared, shape) : std::nullopt;
    const auto limit = launch.shared_limit ? evaluate(*launch.shared_limit, shape) : std::nullopt;
    return threads <= kMostThreads[0] && shared && limit && *shared <= *limit;
  };
  return std::any_of(relation.cases.begin(), relation.cases.end(), [&](const Case& one) {
    return std::all_of(one.when.begin(), one.when.end(),
                       [&](const Condition& condition) { return condition.holds(shape); }) &&
           std::all_of(one.launches.begin(), one.launches.end(), is_taken);
  });
}

}  // namespace assay::prove
