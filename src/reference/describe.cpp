// `assay formula`: what was understood, for people.
#include "reference/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "contract/complex.h"
#include "contract/formula_case.h"
#include "contract/init.h"
#include "contract/legal_shape.h"
#include "reference/arithmetic.h"
#include "reference/evaluation.h"
#include "reference/shaped_formula.h"

namespace assay::reference {
namespace {

using Json = nlohmann::ordered_json;

std::string power_of_two(double u) {
  return fmt::format("2^{}", static_cast<int>(std::lround(std::log2(u))));
}

std::string shape_text(const std::vector<IntExpr>& shape) {
  std::string text;
  for (const IntExpr& extent : shape) text += (text.empty() ? "" : ", ") + extent.written();
  return "[" + text + "]";
}

std::string layout_text(const TensorSpec& spec) {
  std::string text = spec.strides.empty() ? "" : ", strides " + shape_text(spec.strides);
  if (info(spec.dtype).bits < 8) text += ", two in a byte, the first in its low half";
  return text;
}

class Describer {
 public:
  Describer(const Contract& contract, const CompiledFormula& compiled, const ShapedFormula& shaped)
      : contract_(contract),
        compiled_(compiled),
        shaped_(shaped),
        precision_(precision_of(contract.reference)) {}

  // What run() has said, for programs.
  Json definitions = Json::array(), budgets = Json::object();

  std::string run() {
    for (std::size_t i = 0; i < compiled_.definitions.size(); ++i)
      if (!is_lifted(compiled_.definitions[i])) definition(static_cast<int>(i), 0);
    for (std::size_t i = 0; i < contract_.tensors.size(); ++i)
      if (compiled_.final_definition[i] >= 0) budget(i);
    return std::move(text_);
  }

 private:
  static bool is_lifted(const Definition& made) {
    return std::ranges::any_of(made.variables, [](const Variable& v) { return v.outer_definition >= 0; }) ||
           made.name.find('(') != std::string::npos;
  }

  void line(int depth, const std::string& words) {
    if (budgeted_) budgets[*budgeted_].push_back(words);
    text_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + words + "\n";
  }

  // "0..T", as far as the contract gives it a name.
  std::string range_text(int definition_id, int variable) const {
    const Definition& made = compiled_.definitions[static_cast<std::size_t>(definition_id)];
    const Variable& v = made.variables[static_cast<std::size_t>(variable)];
    if (v.outer_definition >= 0) return range_text(v.outer_definition, v.outer_variable);
    if (!v.range_text.empty()) return v.range_text;
    for (const bool guarded : {false, true})
      for (const Use& use : v.uses)
        if (use.guarded == guarded)
          if (std::string end = extent_text(use); !end.empty()) return "0.." + end;
    for (const Use& use : v.divided_uses)
      if (std::string end = extent_text(use); !end.empty())
        return fmt::format("0..{} * ({})", use.divisor, end);
    return "?";
  }

  // "T": how many elements there are where this use points; empty if the contract has no name for it.
  std::string extent_text(const Use& use) const {
    int tensor = use.output;
    if (use.source >= 0) tensor = compiled_.sources[static_cast<std::size_t>(use.source)].tensor;
    if (tensor >= 0)
      return contract_.tensors[static_cast<std::size_t>(tensor)]
          .shape[static_cast<std::size_t>(use.coordinate)]
          .written();
    const Source& source = compiled_.sources[static_cast<std::size_t>(use.source)];
    const Coordinate& coordinate = compiled_.definitions[static_cast<std::size_t>(source.definition)]
                                       .coordinates[static_cast<std::size_t>(use.coordinate)];
    if (coordinate.variable < 0) return "";
    const std::string range = range_text(source.definition, coordinate.variable);
    return range.starts_with("0..") ? range.substr(3) : "";
  }

  int64_t length(int definition_id, int variable) const {
    const Range& range = shaped_.definitions[static_cast<std::size_t>(definition_id)]
                             .ranges[static_cast<std::size_t>(variable)];
    return std::max(range.length(), range.most);
  }

  std::string loops_text(int id, const std::vector<int>& variables) const {
    std::string words;
    for (const int variable : variables) {
      const Variable& v =
          compiled_.definitions[static_cast<std::size_t>(id)].variables[static_cast<std::size_t>(variable)];
      words += fmt::format("{}{} in {}", words.empty() ? "" : ", ", v.name, range_text(id, variable));
    }
    return words;
  }

  double terms(int id) const {
    const Definition& made = compiled_.definitions[static_cast<std::size_t>(id)];
    double product = 1;
    for (const int variable : made.reduced) product *= static_cast<double>(length(id, variable));
    return product;
  }

  void definition(int id, int depth) {
    const Definition& made = compiled_.definitions[static_cast<std::size_t>(id)];
    std::string place;
    std::vector<int> plain;
    for (const Coordinate& coordinate : made.coordinates) {
      if (coordinate.variable >= 0) plain.push_back(coordinate.variable);
      place += (place.empty() ? "" : ", ") +
               (coordinate.variable >= 0 ? made.variables[static_cast<std::size_t>(coordinate.variable)].name
                                         : coordinate.text);
    }
    const std::string name = shown_name(id);
    std::string words = is_lifted(made) || place.empty() ? name : fmt::format("{}[{}]", name, place);
    if (const Choice* choice = chosen(id)) words += fmt::format(", chosen by the kernel ({})", choice->word);
    if (made.output >= 0) {
      const TensorSpec& spec = contract_.tensors[static_cast<std::size_t>(made.output)];
      words += fmt::format(", the output {} {}", contract::type_name(spec), shape_text(spec.shape));
    }
    if (!plain.empty()) words += fmt::format(": for {}", loops_text(id, plain));
    line(depth, words);
    Json entry = {{"name", name}, {"line", made.place.line}, {"indices", indices_json(id, plain)}};
    if (made.output >= 0) entry["output"] = true;
    if (!made.reduced.empty() && made.reduce != Reduce::None) {
      entry["reduction"] = to_string(made.reduce);
      entry["over"] = indices_json(id, made.reduced);
    }
    definitions.push_back(std::move(entry));
    if (!made.reduced.empty()) {
      const std::string_view what = made.reduce == Reduce::None ? "assigned once" : to_string(made.reduce);
      line(depth + 1, fmt::format("{} over {}: {:.0f} {}", what, loops_text(id, made.reduced), terms(id),
                                  made.is_scatter() ? "values, each to its own place" : "terms"));
    }
    if (made.previous >= 0) line(depth + 1, "starts from the value before");
    std::set<int> inner;
    for (const Node& node : made.nodes) {
      if (node.op != Op::Load) continue;
      const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
      if (!source.is_input && is_lifted(compiled_.definitions[static_cast<std::size_t>(source.definition)]))
        inner.insert(source.definition);
    }
    for (const int child : inner) definition(child, depth + 1);
  }

  const Choice* chosen(int id) const {
    const auto found = std::ranges::find(compiled_.choice_definitions, id);
    return found == compiled_.choice_definitions.end()
               ? nullptr
               : &compiled_.choices[static_cast<std::size_t>(found - compiled_.choice_definitions.begin())];
  }

  // What the kernel chooses by, and draws without a name, are called after what they are of.
  std::string shown_name(int id) const {
    const std::string& name = compiled_.definitions[static_cast<std::size_t>(id)].name;
    const std::string of = name.substr(0, name.find('\''));
    if (is_lifted(compiled_.definitions[static_cast<std::size_t>(id)]) || of == name) return name;
    const auto found = std::ranges::find(compiled_.weight_definitions, id);
    if (found == compiled_.weight_definitions.end()) return "a draw of " + of;
    const Choice& choice =
        compiled_.choices[static_cast<std::size_t>(found - compiled_.weight_definitions.begin())];
    return (choice.kind == ChoiceKind::Random    ? "the probability of "
            : choice.kind == ChoiceKind::Rounded ? "what is rounded to "
                                                 : "the weights of ") +
           of;
  }

  // All definitions that an output depends on.
  std::set<int> ancestors(int id) const {
    std::set<int> seen;
    std::vector<int> waiting = {id};
    while (!waiting.empty()) {
      const int at = waiting.back();
      waiting.pop_back();
      if (!seen.insert(at).second) continue;
      for (const Node& node : compiled_.definitions[static_cast<std::size_t>(at)].nodes) {
        if (node.op != Op::Load) continue;
        const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
        if (!source.is_input) waiting.push_back(source.definition);
      }
    }
    return seen;
  }

  void budget(std::size_t tensor) {
    const TensorSpec& spec = contract_.tensors[tensor];
    line(0, fmt::format("budget of {}", spec.name));
    budgets[spec.name] = Json::array();
    budgeted_ = spec.name;
    if (const Choice* choice = chosen(compiled_.final_definition[tensor])) {
      line(1, fmt::format(
                  "chosen by the kernel ({}): any legal choice, and many of them as they are distributed",
                  choice->word));
      budgeted_.reset();
      return;
    }
    const std::string unit = power_of_two(numerics::unit_roundoff(info(precision_.dtype).format));
    std::set<std::string> functions, casts;
    bool rounds = false;
    for (const int id : ancestors(compiled_.final_definition[tensor])) {
      const Definition& made = compiled_.definitions[static_cast<std::size_t>(id)];
      const double n = terms(id);
      const bool sums =
          (made.reduce == Reduce::Sum || made.reduce == Reduce::Mean) && made.type() == Type::Float;
      if (sums && !made.reduced.empty())
        line(1, fmt::format(
                    "{} of up to {:.0f} terms in {}, in any order: at most {:.2g} of the sum of their sizes, "
                    "typically {:.1g} of the result",
                    made.name, n, info(precision_.dtype).name, std::max(0.0, n - 1) * precision_.u,
                    kRms * precision_.u * std::sqrt(n / 3 + 1)));
      for (const Node& node : made.nodes) describe_node(node, functions, casts, rounds);
    }
    for (const std::string& words : functions) line(1, words);
    for (const std::string& words : casts) line(1, words);
    if (rounds)
      line(1, fmt::format("other operations in {}: {} of each result", info(precision_.dtype).name, unit));
    if (!is_float(spec.dtype))
      line(1, fmt::format("stored as {}: exact, but where rounding before it leaves more than one answer",
                          info(spec.dtype).name));
    else if (numerics::info(info(spec.dtype).format).precision() < precision_.bits)
      line(1, fmt::format("stored in {}: half a unit in the last place, at most {} of the result",
                          info(spec.dtype).name,
                          power_of_two(numerics::unit_roundoff(info(spec.dtype).format))));
    else
      line(1, fmt::format("stored in {}, as computed", info(spec.dtype).name));
    if (contract_.require.rtol || contract_.require.atol) line(1, "overridden by rtol and atol in [require]");
    budgeted_.reset();
  }

  Json indices_json(int id, const std::vector<int>& variables) const {
    Json indices = Json::array();
    for (const int variable : variables)
      indices.push_back({{"name", compiled_.definitions[static_cast<std::size_t>(id)]
                                      .variables[static_cast<std::size_t>(variable)]
                                      .name},
                         {"range", range_text(id, variable)},
                         {"length", length(id, variable)}});
    return indices;
  }

  void describe_node(const Node& node, std::set<std::string>& functions, std::set<std::string>& casts,
                     bool& rounds) const {
    if (node.type != Type::Float) return;
    if (node.op >= Op::Exp && node.op <= Op::Cos) {
      double relative = 0, absolute = 0;
      const FunctionInfo& f = function_info(node.op);
      f.error(1.0, f.value(1.0), precision_, relative, absolute);
      functions.insert(fmt::format("{}: {:.1g} of its result near 1 ({} math)", name_of(node.op),
                                   relative * precision_.u,
                                   contract_.reference.math == Math::Fast ? "fast" : "standard"));
    }
    if (node.op == Op::CastFloat && numerics::info(info(node.dtype).format).precision() < precision_.bits)
      casts.insert(fmt::format("may be rounded to {} (line {}): {} of the value there", info(node.dtype).name,
                               node.place.line,
                               power_of_two(numerics::unit_roundoff(info(node.dtype).format))));
    rounds |= node.op == Op::Add || node.op == Op::Sub || node.op == Op::Mul || node.op == Op::Div ||
              node.op == Op::Pow;
  }

  static std::string_view name_of(Op op) {
    constexpr std::string_view kNames[] = {"exp",   "exp2",    "expm1",    "log",  "log2",
                                           "log1p", "sqrt",    "rsqrt",    "tanh", "erf",
                                           "erfc",  "sigmoid", "softplus", "sin",  "cos"};
    return kNames[static_cast<std::size_t>(op) - static_cast<std::size_t>(Op::Exp)];
  }

  const Contract& contract_;
  const CompiledFormula& compiled_;
  const ShapedFormula& shaped_;
  const Precision precision_;
  std::string text_;
  std::optional<std::string> budgeted_;  // the output whose budget is being described
};

std::string dims_text(const Contract& contract) {
  std::string text;
  for (const Dim& dim : contract.dims)
    text += dim.is_constant()
                ? fmt::format("  {} = {}\n", dim.name, dim.min)
                : fmt::format("  {}: {} to {}{}\n", dim.name, dim.min, dim.max,
                              dim.multiple_of > 1 ? fmt::format(", a multiple of {}", dim.multiple_of) : "");
  for (const contract::DerivedDim& dim : contract.derived)
    text += fmt::format("  {} = {}\n", dim.name, dim.value.written());
  std::set<std::string> shown;  // `a <= b < c` is two
  for (const contract::DimRelation& relation : contract.relations)
    if (shown.insert(relation.text).second) text += fmt::format("  {}\n", relation.text);
  return text;
}

// Far more than any memory holds, and few enough to be counted.
constexpr double kMostShownElements = 0x1p40;

double elements_of_largest(const Contract& contract, const Shape& shape) {
  double most = 0;
  for (const TensorSpec& spec : contract.tensors) {
    const auto extents = spec.extents(shape);
    if (!extents) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::accumulate(extents->begin(), extents->end(), 1.0, std::multiplies<double>()));
  }
  return most;
}

// The first of [[shapes]], else the largest: dims that would make a tensor larger than anybody can have are halved.
Shape shown_shape(const Contract& contract) {
  if (!contract.shapes.empty()) return contract.shapes[0];
  Shape shape;
  for (const Dim& dim : contract.dims) shape[dim.name] = dim.highest();
  while (elements_of_largest(contract, shape) > kMostShownElements) {
    const Dim* largest = nullptr;
    for (const Dim& dim : contract.dims)
      if (shape[dim.name] / 2 >= dim.min && (!largest || shape[dim.name] > shape[largest->name]))
        largest = &dim;
    if (!largest) break;
    shape[largest->name] /= 2;
  }
  return contract::legal_shape(contract, shape).value_or(shape);
}

}  // namespace

Result<std::string> describe(const Contract& contract, const CompiledFormula& compiled, const Shape& shape) {
  Result<ShapedFormula> shaped = at_shape(contract, compiled, shape);
  if (!shaped) return shaped.error();
  std::string text = shape.empty() ? "" : fmt::format("at {}\n", contract::to_string(shape));
  return text + Describer(contract, compiled, *shaped).run();
}

namespace {

// Without the dimension of the parts of complex numbers.
std::vector<IntExpr> shown(const TensorSpec& spec, std::vector<IntExpr> shape) {
  if (spec.is_complex) shape.pop_back();
  return shape;
}

std::string place_text(const TensorSpec& spec) {
  if (!spec.buffer.empty()) return fmt::format(", at byte {} of {}", spec.offset.written(), spec.buffer);
  if (!spec.pointers) return "";
  return spec.pointer_offsets.empty()
             ? ", a pointer to each slice"
             : fmt::format(", a pointer to each stretch between {}", spec.pointer_offsets);
}

Json texts_of(const std::vector<IntExpr>& expressions) {
  Json list = Json::array();
  for (const IntExpr& one : expressions) list.push_back(one.written());
  return list;
}

Json dims_json(const Contract& contract) {
  Json dims = Json::array();
  for (const Dim& dim : contract.dims)
    dims.push_back({{"name", dim.name},
                    {"min", dim.min},
                    {"max", dim.max},
                    {"multiple_of", dim.multiple_of},
                    {"type", info(dim.type).name}});
  for (const contract::DerivedDim& dim : contract.derived)
    dims.push_back({{"name", dim.name}, {"value", dim.value.written()}, {"type", info(dim.type).name}});
  return dims;
}

Json tensors_json(const Contract& contract, const Shape& shape) {
  constexpr std::string_view kRoles[] = {"in", "out", "inout"};
  Json tensors = Json::array();
  for (const TensorSpec& spec : contract.tensors) {
    Json one = {{"name", spec.name},
                {"dtype", contract::type_name(spec)},
                {"shape", texts_of(shown(spec, spec.shape))},
                {"role", kRoles[static_cast<std::size_t>(spec.role)]}};
    if (!spec.strides.empty()) one["strides"] = texts_of(spec.strides);
    if (spec.optional) one["optional"] = true;
    if (!spec.buffer.empty()) one["buffer"] = {{"name", spec.buffer}, {"offset", spec.offset.written()}};
    if (spec.pointers)
      one["pointers"] = spec.pointer_offsets.empty() ? Json(true) : Json(spec.pointer_offsets);
    if (!spec.values.text.empty()) one["values"] = spec.values.text;
    if (const auto layout = spec.layout(shape)) {
      one["extents"] = layout->extents;
      one["bytes"] = layout->bytes;
    }
    tensors.push_back(std::move(one));
  }
  return tensors;
}

// One formula: what it defines, and what its outputs' budgets rest on.
Result<Json> formula_json(const Contract& contract, const Shape& shape) {
  const Result<std::shared_ptr<const CompiledFormula>> compiled = compile(contract);
  if (!compiled) return compiled.error();
  const Result<ShapedFormula> shaped = at_shape(contract, **compiled, shape);
  if (!shaped) return shaped.error();
  Describer describer(contract, **compiled, *shaped);
  (void)describer.run();
  return Json{{"definitions", describer.definitions}, {"budgets", describer.budgets}};
}

}  // namespace

Result<Json> describe_json(const Contract& contract) {
  const Shape shape = shown_shape(contract);
  Json json = {{"assay", "1"}, {"title", contract.title}, {"dims", dims_json(contract)}};
  json["relations"] = Json::array();
  for (const contract::DimRelation& relation : contract.relations) json["relations"].push_back(relation.text);
  json["tensors"] = tensors_json(contract, shape);
  json["shape"] = shape;
  if (contract.reference.kind != ReferenceKind::Formula) return json;
  Result<Json> formula = formula_json(contract, shape);
  if (!formula) return formula.error();
  json["formula"] = std::move(*formula);
  for (const FormulaCase& one : contract.reference.cases) {
    Result<Json> other = formula_json(with_case(contract, one), shape);
    if (!other) return other.error();
    (*other)["when"] = one.when_text;
    json["cases"].push_back(std::move(*other));
  }
  return json;
}

Result<std::string> describe(const Contract& contract) {
  std::string text = contract.title.empty() ? "" : contract.title + "\n";
  if (!contract.dims.empty()) text += "dims\n" + dims_text(contract);
  text += "tensors\n";
  for (const TensorSpec& spec : contract.tensors) {
    constexpr std::string_view kRoles[] = {"in", "out", "inout"};
    text += fmt::format("  {}: {} {}, {}{}{}{}\n", spec.name, contract::type_name(spec),
                        shape_text(shown(spec, spec.shape)), kRoles[static_cast<std::size_t>(spec.role)],
                        layout_text(spec), spec.optional ? ", optional" : "", place_text(spec));
  }
  const ReferenceSpec& reference = contract.reference;
  if (reference.kind == ReferenceKind::Python)
    return text + fmt::format(
                      "reference: the Python function {} in {}, in float64; its budget is its own error in "
                      "the declared precision\n",
                      reference.python.function, reference.python.file);
  if (reference.kind == ReferenceKind::Torch)
    return text + fmt::format(
                      "reference: the PyTorch function {} in {}, evaluated exactly; its budget is derived "
                      "operator by operator\n",
                      reference.python.function, reference.python.file);
  if (reference.kind == ReferenceKind::Cuda)
    return text + fmt::format("reference: {} in {}, its floats in FP64\n", reference.cuda_entry,
                              reference.cuda_source);
  Result<std::shared_ptr<const CompiledFormula>> compiled = compile(contract);
  if (!compiled) return compiled.error();
  Result<std::string> formula = describe(contract, **compiled, shown_shape(contract));
  if (!formula) return formula.error();
  for (const FormulaCase& one : reference.cases) {
    const Contract own = with_case(contract, one);
    compiled = compile(own);
    if (!compiled) return compiled.error();
    const Result<std::string> other = describe(own, **compiled, shown_shape(contract));
    if (!other) return other.error();
    *formula += fmt::format("where {}\n{}", one.when_text, *other);
  }
  return text + *formula;
}

}  // namespace assay::reference
