#include <algorithm>

#include "reference/defects.h"
#include "reference/reference_impl.h"

namespace assay::reference {

std::vector<int> Reference::Impl::behind(int definition) const {
  // Definitions refer to earlier sources only, so the walk ends.
  std::vector<int> waiting = {definition}, found;
  std::vector<char> seen(compiled->definitions.size(), 0);
  while (!waiting.empty()) {
    const int id = waiting.back();
    waiting.pop_back();
    if (seen[static_cast<std::size_t>(id)]++) continue;
    found.push_back(id);
    for (const Node& node : compiled->definitions[static_cast<std::size_t>(id)].nodes) {
      if (node.op != Op::Load) continue;
      const Source& source = compiled->sources[static_cast<std::size_t>(node.ref)];
      if (!source.is_input) waiting.push_back(source.definition);
    }
  }
  return found;
}

bool Reference::Impl::uses_products(int definition) const {
  return std::ranges::any_of(behind(definition), [&](int id) {
    const Definition& made = compiled->definitions[static_cast<std::size_t>(id)];
    return made.reduce == Reduce::Sum && !made.reduced.empty() && Evaluator::is_product(made);
  });
}

std::vector<int> Reference::Impl::with_sites(const std::string& output) const {
  const Result<int> tensor = tensor_of(output);
  if (!tensor || !compiled || !cases.empty()) return {};
  return behind(compiled->final_definition[static_cast<std::size_t>(*tensor)]);
}

std::vector<Site> Reference::sums(const std::string& output) const {
  std::vector<Site> sites;
  for (const int id : impl_->with_sites(output)) {
    const Definition& made = impl_->compiled->definitions[static_cast<std::size_t>(id)];
    const bool sum = made.reduce == Reduce::Sum || made.reduce == Reduce::Mean;
    if (sum && made.type() == Type::Float && !made.reduced.empty()) sites.push_back({-1, id, made.name});
  }
  return sites;
}

std::vector<Site> Reference::values(const std::string& output) const {
  std::vector<Site> sites;
  for (const int id : impl_->with_sites(output)) {
    const Definition& made = impl_->compiled->definitions[static_cast<std::size_t>(id)];
    for (std::size_t n = 0; n < made.nodes.size(); ++n) {
      const Node& node = made.nodes[n];
      const bool computes = node.op >= Op::Add && node.op != Op::If;
      if (node.type == Type::Float && computes) sites.push_back({static_cast<int>(n), id, made.name});
    }
  }
  return sites;
}

namespace {

// By node: whether an index of some element depends on it.
std::vector<char> in_subscripts(const std::vector<Node>& nodes) {
  std::vector<char> found(nodes.size(), 0);
  const auto mark = [&](int id) {
    if (id >= 0) found[static_cast<std::size_t>(id)] = 1;
  };
  // Operands come before what is computed from them.
  for (std::size_t n = nodes.size(); n-- > 0;) {
    for (const int subscript : nodes[n].subscripts) mark(subscript);
    if (!found[n]) continue;
    for (const int operand : {nodes[n].a, nodes[n].b, nodes[n].c}) mark(operand);
  }
  return found;
}

}  // namespace

std::set<std::string> Reference::summed_inputs(const std::string& output) const {
  std::set<std::string> names;
  Result<int> tensor = impl_->tensor_of(output);
  if (!tensor) return names;
  if (!impl_->compiled) {
    for (const TensorSpec* spec : impl_->contract.inputs()) names.insert(spec->name);
    return names;
  }
  const CompiledFormula& compiled = *impl_->compiled;
  for (const int id : impl_->behind(compiled.final_definition[static_cast<std::size_t>(*tensor)])) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    // A product of equal factors is as coherent as a sum of equal terms: lanes that multiply the same numbers round alike.
    const bool accumulates =
        made.reduce == Reduce::Sum || made.reduce == Reduce::Mean || made.reduce == Reduce::Prod;
    if (!accumulates || made.type() != Type::Float) continue;
    for (const int under : impl_->behind(id)) {
      const std::vector<Node>& nodes = compiled.definitions[static_cast<std::size_t>(under)].nodes;
      const std::vector<char> selects = in_subscripts(nodes);
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        if (nodes[n].op != Op::Load || (nodes[n].type != Type::Float && !selects[n])) continue;
        const Source& source = compiled.sources[static_cast<std::size_t>(nodes[n].ref)];
        if (source.is_input)
          names.insert(impl_->contract.tensors[static_cast<std::size_t>(source.tensor)].name);
      }
    }
  }
  for (const Reference& one : impl_->cases) names.merge(one.summed_inputs(output));
  return names;
}

// Of the sums in an output's own expression, which are evaluated for each of its elements.
double Reference::Impl::asked_terms(const ShapedFormula& shaped, int definition) const {
  double most = 0;
  for (const int id : behind(definition)) {
    const Definition& made = compiled->definitions[static_cast<std::size_t>(id)];
    const bool is_own =
        id == definition || std::ranges::any_of(made.variables, [&](const Variable& variable) {
          return variable.outer_definition == definition;
        });
    if (made.filter < 0 || !is_own) continue;
    double terms = 1;
    for (const int variable : made.reduced)
      terms *= static_cast<double>(shaped.definitions[static_cast<std::size_t>(id)]
                                       .ranges[static_cast<std::size_t>(variable)]
                                       .length());
    most = std::max(most, terms);
  }
  return most;
}

std::set<std::string> Reference::inputs_with_free_ties(const std::string& output) const {
  std::set<std::string> names;
  const Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return names;
  const CompiledFormula& compiled = *impl_->compiled;
  for (const int id : impl_->behind(compiled.final_definition[static_cast<std::size_t>(*tensor)])) {
    const std::vector<Node>& nodes = compiled.definitions[static_cast<std::size_t>(id)].nodes;
    for (const Node& node : nodes) {
      if (node.op != Op::CastFloat || !contract::ties_either_way(node.dtype)) continue;
      const Node& operand = nodes[static_cast<std::size_t>(node.a)];
      if (operand.op != Op::Load) continue;
      const Source& source = compiled.sources[static_cast<std::size_t>(operand.ref)];
      if (source.is_input)
        names.insert(impl_->contract.tensors[static_cast<std::size_t>(source.tensor)].name);
    }
  }
  for (const Reference& one : impl_->cases) names.merge(one.inputs_with_free_ties(output));
  return names;
}

bool Reference::has_products(const std::string& output) const {
  Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return false;
  if (impl_->any_case([&](const Reference& one) { return one.has_products(output); })) return true;
  return impl_->uses_products(impl_->compiled->final_definition[static_cast<std::size_t>(*tensor)]);
}

bool Reference::is_elementwise(const std::string& output) const {
  const Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return false;
  if (impl_->any_case([&](const Reference& one) { return !one.is_elementwise(output); })) return false;
  const CompiledFormula& compiled = *impl_->compiled;
  const int last = compiled.final_definition[static_cast<std::size_t>(*tensor)];
  return std::ranges::none_of(impl_->behind(last), [&](int id) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    return made.reduce != Reduce::None || made.is_scatter();
  });
}

bool Reference::shares_nothing(const std::string& output) const {
  const Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return false;
  if (impl_->any_case([&](const Reference& one) { return !one.shares_nothing(output); })) return false;
  const CompiledFormula& compiled = *impl_->compiled;
  const int last = compiled.final_definition[static_cast<std::size_t>(*tensor)];
  const Definition& whole = compiled.definitions[static_cast<std::size_t>(last)];
  // A reduction in the output's own expression, for each of its elements: its coordinates are the output's indices. What has
  // a name of its own may be used anywhere.
  const auto is_own = [&](const Definition& made) {
    return made.coordinates.size() == whole.coordinates.size() &&
           std::ranges::all_of(made.coordinates, [&](const Coordinate& coordinate) {
             if (coordinate.variable < 0) return false;
             const Variable& index = made.variables[static_cast<std::size_t>(coordinate.variable)];
             return index.outer_definition == last &&
                    std::ranges::any_of(whole.coordinates, [&](const Coordinate& of_output) {
                      return of_output.variable == index.outer_variable;
                    });
           });
  };
  return std::ranges::all_of(impl_->behind(last), [&](int id) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    const bool is_whole = std::ranges::all_of(made.reduced, [&](int variable) {
      const Variable& over = made.variables[static_cast<std::size_t>(variable)];
      return over.low < 0 && over.high < 0;
    });
    return (id == last || is_own(made)) && made.filter < 0 && !made.is_scatter() && is_whole;
  });
}

double Reference::cost_of_term(const std::string& output) const {
  // Measured: a term of log(cumsum(exp)) takes ten times as long as one of a product.
  constexpr double kFunction = 8;
  const Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return 1;
  const CompiledFormula& compiled = *impl_->compiled;
  const int last = compiled.final_definition[static_cast<std::size_t>(*tensor)];
  const std::size_t rank = compiled.definitions[static_cast<std::size_t>(last)].coordinates.size();
  double cost = 0;
  for (const int id : impl_->behind(last)) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    // One with fewer coordinates serves many elements.
    if (made.reduce == Reduce::None || made.coordinates.size() < rank) continue;
    cost += 1 + kFunction * static_cast<double>(std::ranges::count_if(made.nodes, [](const Node& n) {
                  return (n.op >= Op::Exp && n.op <= Op::Cos) ||
                         (n.op == Op::Pow && n.type == Type::Float && !n.literal_exponent);
                }));
  }
  return std::max(1.0, cost);
}

bool Reference::applies(const Defect& defect) const {
  if (impl_->any_case([&](const Reference& one) { return one.applies(defect); })) return true;
  return impl_->compiled && defect_applies(*impl_->compiled, impl_->contract, defect);
}

}  // namespace assay::reference
