#include "reference/shaped_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "contract/formula.h"
#include "reference/arithmetic.h"

namespace assay::reference {
namespace {

__extension__ typedef __int128 Wide;
constexpr int64_t kLargest = int64_t{1} << 44;  // elements of a definition

// The values that an integer node can take; `exact` if it takes the ends.
struct Interval64 {
  int64_t low = std::numeric_limits<int64_t>::min() / 4;
  int64_t high = std::numeric_limits<int64_t>::max() / 4;
  bool exact = false;
  bool data = false;  // depends on the contents of a tensor
};

int64_t clamp64(Wide value) {
  constexpr Wide kEdge = std::numeric_limits<int64_t>::max() / 4;
  return static_cast<int64_t>(std::clamp<Wide>(value, -kEdge, kEdge));
}

class Shaper {
 public:
  Shaper(const Contract& contract, const CompiledFormula& compiled, const Shape& shape)
      : contract_(contract), compiled_(compiled) {
    shaped_.shape = shape;
  }

  Result<ShapedFormula> run() {
    for (const Dim& dim : contract_.dims) {
      const auto found = shaped_.shape.find(dim.name);
      if (found == shaped_.shape.end()) return Error{fmt::format("the dim `{}` has no value", dim.name)};
      shaped_.dims.push_back(found->second);
    }
    for (const contract::DerivedDim& dim : contract_.derived) {
      const Result<int64_t> value = dim.value.eval(shaped_.shape);
      if (!value) return contract_.error_at(dim.place, value.error().message);
      shaped_.dims.push_back(*value);
    }
    for (const TensorSpec& spec : contract_.tensors) {
      Result<std::vector<int64_t>> extents = spec.extents(shaped_.shape);
      if (!extents) return contract_.error_at(spec.place, extents.error().message);
      if (!spec.strides.empty())
        if (const Result<contract::Layout> layout = spec.layout(shaped_.shape); !layout)
          return contract_.error_at(spec.place, layout.error().message);
      shaped_.tensor_strides.push_back(strides_of(*extents));
      shaped_.tensor_extents.push_back(std::move(*extents));
    }
    for (const Definition& definition : compiled_.definitions) {
      shaped_.definitions.emplace_back();
      plan_one(definition, shaped_.definitions.back());
      if (failed_) return error_;
    }
    return std::move(shaped_);
  }

 private:
  void fail(Place place, std::string message) {
    if (!failed_) error_ = contract_.error_at(place, std::move(message));
    failed_ = true;
  }

  void plan_one(const Definition& definition, ShapedDefinition& shaped) {
    shaped.ranges.resize(definition.variables.size());
    for (std::size_t v = 0; v < definition.variables.size() && !failed_; ++v)
      shaped.ranges[v] = range_of(definition, shaped, definition.variables[v]);
    // Captured indices come after those whose ranges depend on them.
    for (std::size_t v = 0; v < definition.variables.size() && !failed_; ++v)
      if (!shaped.ranges[v].constant) {
        const Range whole = range_of(definition, shaped, definition.variables[v]);
        shaped.ranges[v].most = whole.length();
        shaped.ranges[v].least_low = whole.low;
        shaped.ranges[v].most_high = whole.high;
      }
    for (std::size_t i = 0; i < definition.coordinates.size() && !failed_; ++i)
      coordinate(definition, shaped, i);
    if (failed_) return;
    shaped.strides = strides_of(shaped.extents);
    Wide count = 1;
    for (const int64_t extent : shaped.extents) count = std::min<Wide>(count * extent, kLargest + 1);
    if (count > kLargest)
      return fail(definition.place, fmt::format("`{}` is too large at this shape", definition.name));
    shaped.count = static_cast<int64_t>(count);
    for (const Node& node : definition.nodes)
      if (node.op == Op::Load && !node.guarded && !failed_) check_load(definition, shaped, node);
  }

  Range range_of(const Definition& definition, const ShapedDefinition& shaped, const Variable& variable) {
    if (variable.outer_definition >= 0) {
      Range range = shaped_.definitions[static_cast<std::size_t>(variable.outer_definition)]
                        .ranges[static_cast<std::size_t>(variable.outer_variable)];
      if (!range.constant) {  // all that it may be: places for each are kept
        range.low = range.least_low;
        range.high = range.most_high;
      }
      return range;
    }
    if (variable.low < 0) return inferred(variable);
    const Interval64 low = interval(definition, shaped, variable.low);
    const Interval64 high = interval(definition, shaped, variable.high);
    if (low.data || high.data) return data_range(variable, low, high);
    const uint64_t outer = definition.nodes[static_cast<std::size_t>(variable.low)].indices |
                           definition.nodes[static_cast<std::size_t>(variable.high)].indices;
    return {low.low, high.high, outer == 0};
  }

  // The range depends on the contents of a tensor: what it can be at most follows from what it indexes, or
  // from the values that the tensor may hold.
  Range data_range(const Variable& variable, const Interval64& low, const Interval64& high) {
    if (!variable.uses.empty()) {
      Range range = inferred(variable);
      range.constant = false;
      return range;
    }
    const int64_t first = std::min(low.low, high.high);
    if (first < -kLargest || high.high > kLargest) {
      fail(variable.place,
           fmt::format("the range of `{}` depends on data without bounds; bound them with `values`, as in "
                       "values = \"offsets(N)\"",
                       variable.name));
      return {};
    }
    return {first, high.high, false};
  }

  int64_t extent_of(const Use& use) const {
    const auto at = static_cast<std::size_t>(use.coordinate);
    if (use.output >= 0) return shaped_.tensor_extents[static_cast<std::size_t>(use.output)][at];
    return shaped_.extents(compiled_, use.source)[at];
  }

  // "T": the extent as the contract writes it, if it does.
  std::string extent_text(const Use& use) const {
    int tensor = use.output;
    if (use.source >= 0) tensor = compiled_.sources[static_cast<std::size_t>(use.source)].tensor;
    if (tensor < 0) return std::to_string(extent_of(use));
    return contract_.tensors[static_cast<std::size_t>(tensor)]
        .shape[static_cast<std::size_t>(use.coordinate)]
        .text();
  }

  static bool is_on_left(const Use& use) { return use.output >= 0 || use.text.ends_with("on the left"); }

  // All uses agree; but what is on the left decides, and the right may be read in part.
  Range inferred(const Variable& variable) {
    const Use* first = nullptr;
    for (const Use& use : variable.uses)
      if (!first && is_on_left(use)) first = &use;
    for (const bool guarded : {false, true}) {
      for (const Use& use : variable.uses) {
        if (use.guarded != guarded) continue;
        if (!first) first = &use;
        if (extent_of(use) == extent_of(*first)) continue;
        if (is_on_left(*first) && !is_on_left(use) && extent_of(use) > extent_of(*first)) continue;
        fail(use.place,
             fmt::format(
                 "the index `{}` ranges over 0..{} in {} but over 0..{} in {}; guard one with `if`, or "
                 "write its range",
                 variable.name, extent_text(use), use.text, extent_text(*first), first->text));
        return {};
      }
      if (first) return {0, extent_of(*first), true};
    }
    if (!variable.divided_uses.empty()) return {0, least_divided(variable), true};
    if (variable.implicit) {
      fail(variable.place, not_defined(variable.name));
      return {};
    }
    fail(variable.place,
         fmt::format(
             "the range of the index `{}` cannot be inferred, because no tensor is indexed by `{}` alone; "
             "write its range, as in sum[{} in 0..n](...) or t[{} in 0..n] = ...",
             variable.name, variable.name, variable.name, variable.name));
    return {};
  }

  // A name that means nothing, where `+=` would take it for an index to sum over.
  std::string not_defined(const std::string& name) const {
    std::vector<std::string> known = contract_.names();
    for (const Dim& dim : contract_.dims) known.push_back(dim.name);
    for (const contract::DerivedDim& dim : contract_.derived) known.push_back(dim.name);
    const std::string near = contract::nearest(name, known);
    if (!near.empty()) return fmt::format("`{}` is not defined; did you mean `{}`?", name, near);
    return fmt::format("`{}` is not defined, and cannot be an index to sum over: no tensor is indexed by it",
                       name);
  }

  int64_t least_divided(const Variable& variable) const {
    int64_t least = kLargest;
    for (const Use& use : variable.divided_uses)
      least = std::min(least, clamp64(static_cast<Wide>(extent_of(use)) * use.divisor));
    return least;
  }

  void coordinate(const Definition& definition, ShapedDefinition& shaped, std::size_t i) {
    const Coordinate& written = definition.coordinates[i];
    int64_t extent = 0, origin = 0;
    if (written.variable < 0) {
      extent = definition.output >= 0 ? shaped_.tensor_extents[static_cast<std::size_t>(definition.output)][i]
                                      : shaped_.extents(compiled_, definition.shape_source)[i];
    } else {
      const Range& range = shaped.ranges[static_cast<std::size_t>(written.variable)];
      const Variable& variable = definition.variables[static_cast<std::size_t>(written.variable)];
      extent = range.length();
      origin = range.low;
      const bool captured = variable.outer_definition >= 0;
      if (!captured && range.low != 0)
        return fail(variable.place,
                    fmt::format("the range of `{}`, on the left, must begin at 0", variable.name));
      for (const Use& use : variable.uses)
        if (!captured && is_on_left(use) && extent_of(use) != extent)
          return fail(use.place, fmt::format("`{}` ranges over {} elements, but {} has {} there",
                                             variable.name, extent, definition.name, extent_of(use)));
    }
    shaped.extents.push_back(extent);
    shaped.origin.push_back(origin);
  }

  Interval64 interval(const Definition& definition, const ShapedDefinition& shaped, int id) const {
    const Node& node = definition.nodes[static_cast<std::size_t>(id)];
    switch (node.op) {
      case Op::Integer:
        return {clamp64(node.integer), clamp64(node.integer), true, false};
      case Op::Dim: {
        const int64_t value = clamp64(shaped_.dims[static_cast<std::size_t>(node.ref)]);
        return {value, value, true, false};
      }
      case Op::Index: {
        const Range& range = shaped.ranges[static_cast<std::size_t>(node.ref)];
        return {range.low, range.high - 1, range.constant, false};
      }
      case Op::Load:
        return loaded(node);
      case Op::Neg: {
        const Interval64 a = interval(definition, shaped, node.a);
        return {-a.high, -a.low, a.exact, a.data};
      }
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::FloorDiv:
      case Op::CeilDiv:
      case Op::Mod:
      case Op::Min:
      case Op::Max:
        return combined(definition, shaped, node);
      case Op::BitAnd: {  // with a constant, as a rule
        const Interval64 a = interval(definition, shaped, node.a), b = interval(definition, shaped, node.b);
        Interval64 result;
        result.data = true;
        if (a.low >= 0 || b.low >= 0) {
          result.low = 0;
          result.high = a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high);
        }
        return result;
      }
      default: {
        Interval64 unknown;
        unknown.data = node.op != Op::If;
        return unknown;
      }
    }
  }

  Interval64 loaded(const Node& node) const {
    Interval64 result;
    result.data = true;
    const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
    if (!source.is_input) return result;
    const Values& values = contract_.tensors[static_cast<std::size_t>(source.tensor)].values;
    if (values.text.empty()) return result;
    const Result<int64_t> a = values.a.eval(shaped_.shape), b = values.b.eval(shaped_.shape);
    if (!a || !b) return result;
    switch (values.kind) {
      case ValuesKind::Index:
      case ValuesKind::Tokens:
      case ValuesKind::Distinct:
        return {0, clamp64(*a) - 1, true, true};
      case ValuesKind::Slots:
        return {-1, clamp64(*a) - 1, true, true};
      case ValuesKind::Offsets:
        return {0, clamp64(*a), true, true};
      case ValuesKind::Mask:
        return {0, 1, true, true};
      case ValuesKind::Integers:
        return {clamp64(*a), clamp64(*b), true, true};
      default:
        return result;
    }
  }

  Interval64 combined(const Definition& definition, const ShapedDefinition& shaped, const Node& node) const {
    const Interval64 a = interval(definition, shaped, node.a), b = interval(definition, shaped, node.b);
    const uint64_t shared = definition.nodes[static_cast<std::size_t>(node.a)].indices &
                            definition.nodes[static_cast<std::size_t>(node.b)].indices;
    Interval64 result;
    result.exact = a.exact && b.exact && shared == 0 && !(a.data && b.data);
    result.data = a.data || b.data;
    const auto wide = [](int64_t value) { return static_cast<Wide>(value); };
    switch (node.op) {
      case Op::Add:
        result.low = clamp64(wide(a.low) + b.low);
        result.high = clamp64(wide(a.high) + b.high);
        break;
      case Op::Sub:
        result.low = clamp64(wide(a.low) - b.high);
        result.high = clamp64(wide(a.high) - b.low);
        break;
      case Op::Mul: {
        const Wide corners[] = {wide(a.low) * b.low, wide(a.low) * b.high, wide(a.high) * b.low,
                                wide(a.high) * b.high};
        result.low = clamp64(*std::ranges::min_element(corners));
        result.high = clamp64(*std::ranges::max_element(corners));
        break;
      }
      case Op::Min:
        result.low = std::min(a.low, b.low);
        result.high = std::min(a.high, b.high);
        break;
      case Op::Max:
        result.low = std::max(a.low, b.low);
        result.high = std::max(a.high, b.high);
        break;
      default:  // divisions, by a positive constant
        if (b.low != b.high || b.low <= 0) {
          result.exact = false;
        } else if (node.op == Op::Mod) {
          const bool within = a.low >= 0 && a.high < b.low;
          result.low = within ? a.low : 0;
          result.high = within ? a.high : b.low - 1;
          result.exact = result.exact && (within || a.high - a.low >= b.low);
        } else {
          const int64_t up = node.op == Op::CeilDiv ? b.low - 1 : 0;
          result.low = floor_div(a.low + up, b.low);
          result.high = floor_div(a.high + up, b.low);
        }
    }
    return result;
  }

  // An index whose range was inferred may have been meant to be shorter; not that of an output, which has a value for each.
  static std::string range_hint(const Definition& definition, const Node& node, std::size_t subscript) {
    const uint64_t used = definition.nodes[static_cast<std::size_t>(node.subscripts[subscript])].indices;
    for (std::size_t v = 0; v < definition.variables.size(); ++v) {
      const Variable& variable = definition.variables[v];
      if ((used >> v & 1) == 0 || variable.low >= 0 || variable.outer_definition >= 0) continue;
      const bool is_coordinate = std::ranges::any_of(
          definition.coordinates,
          [&](const Coordinate& coordinate) { return coordinate.variable == static_cast<int>(v); });
      if (definition.output >= 0 && is_coordinate) continue;
      return fmt::format(", or write a shorter range for `{}`, as in `{} in 0..n`", variable.name,
                         variable.name);
    }
    return "";
  }

  void check_load(const Definition& definition, const ShapedDefinition& shaped, const Node& node) {
    for (const Range& range : shaped.ranges)
      if (range.length() == 0) return;
    const std::vector<int64_t>& extents = shaped_.extents(compiled_, node.ref);
    for (std::size_t i = 0; i < node.subscripts.size(); ++i) {
      const Interval64 values = interval(definition, shaped, node.subscripts[i]);
      if (!values.exact || extents[i] == 0) continue;
      if (values.low >= 0 && values.high < extents[i]) continue;
      return fail(node.place,
                  fmt::format("{} is out of range at {}: {}; guard it: `if ... then {} else ...`{}",
                              node.text, contract::to_string(shaped_.shape),
                              out_of_range_text(i, values.low < 0 ? values.low : values.high, extents[i]),
                              node.text, range_hint(definition, node, i)));
    }
  }

  const Contract& contract_;
  const CompiledFormula& compiled_;
  ShapedFormula shaped_;
  bool failed_ = false;
  Error error_;
};

}  // namespace

const std::vector<int64_t>& ShapedFormula::extents(const CompiledFormula& compiled, int source) const {
  const Source& from = compiled.sources[static_cast<std::size_t>(source)];
  if (from.is_input) return tensor_extents[static_cast<std::size_t>(from.tensor)];
  return definitions[static_cast<std::size_t>(from.definition)].extents;
}

std::string out_of_range_text(std::size_t coordinate, int64_t index, int64_t extent) {
  const std::string exist = extent == 0   ? "there are no elements"
                            : extent == 1 ? "only 0 exists"
                                          : fmt::format("only 0 to {} exist", extent - 1);
  return fmt::format("index {} is {}, but {}", coordinate + 1, index, exist);
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(extents[i], 1);
  return strides;
}

Result<ShapedFormula> at_shape(const Contract& contract, const CompiledFormula& compiled,
                               const Shape& shape) {
  return Shaper(contract, compiled, shape).run();
}

}  // namespace assay::reference
