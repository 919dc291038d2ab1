// Nodes, conversions and index variables; and the whole.
#include <functional>

#include "contract/legal_shape.h"
#include "reference/choices.h"
#include "reference/compiler.h"
#include "reference/evaluation.h"
#include "reference/shifted.h"

namespace assay::reference {
namespace {

constexpr std::size_t kMostVariables = 60;

// Shapes that tell dims apart, and the edges of the promise.
std::vector<Shape> telling_shapes(const Contract& contract) {
  std::vector<Shape> shapes(4);
  int64_t step = 2, back = static_cast<int64_t>(contract.dims.size()) + 1;
  for (const Dim& dim : contract.dims) {
    const int64_t low = dim.lowest(), high = dim.highest();
    const auto clamp = [&](int64_t multiples) {
      return multiples > (high - low) / dim.multiple_of ? high : low + multiples * dim.multiple_of;
    };
    shapes[0][dim.name] = clamp(step * step + step);
    shapes[1][dim.name] = clamp(37 * step + 11);
    shapes[2][dim.name] = low;
    shapes[3][dim.name] = clamp(37 * back + 11);  // the larger ones smaller
    ++step;
    --back;
  }
  std::vector<Shape> legal;
  for (Shape& shape : shapes)
    if (std::optional<Shape> near = contract::legal_shape(contract, std::move(shape)))
      legal.push_back(std::move(*near));
  // Dims may depend on each other in ways that only a tensor's extent tells.
  if (legal.size() == shapes.size() && !contract.check_shape(legal.back())) legal.pop_back();
  shapes = std::move(legal);
  shapes.insert(shapes.end(), contract.shapes.begin(), contract.shapes.end());
  return shapes;
}

}  // namespace

Result<std::shared_ptr<const CompiledFormula>> Compiler::run() {
  const ReferenceSpec& reference = contract_.reference;
  Result<WithChoices> separated = separate_choices(contract_, *reference.formula);
  if (!separated) return separated.error();
  Formula shifted;
  if (!as_written_) shifted = shift_exponentials(contract_, separated->formula);
  const Formula& formula = as_written_ ? separated->formula : shifted;
  for (const Statement& written : formula.statements) {
    statement(written);
    if (failed_) return error_;
  }
  for (std::size_t i = 0; i < contract_.tensors.size(); ++i)
    if (contract_.tensors[i].is_output() && compiled_.final_definition[i] < 0)
      return contract_.error_at(
          reference.formula_place,
          fmt::format("the formula never assigns the output `{}`; add `{}`", contract_.tensors[i].name,
                      contract_.tensors[i].shape.empty() ? contract_.tensors[i].name + " = ..."
                                                         : contract_.tensors[i].name + "[...] = ..."));
  drop_casts_of_stores();
  mark_centres();
  mark_avoidable_overflow();
  for (Choice& choice : separated->choices) add_choice(std::move(choice));
  if (failed_) return error_;
  return std::make_shared<const CompiledFormula>(std::move(compiled_));
}

// `q[i] = e4m3(x[i] / s)` of an e4m3 output says what the store does anyway, and not that a kernel may round twice.
void Compiler::drop_casts_of_stores() {
  for (Definition& made : compiled_.definitions) {
    if (made.output < 0 || made.reduce != Reduce::None) continue;
    const Node& body = made.nodes[static_cast<std::size_t>(made.body)];
    if (body.op == Op::CastFloat &&
        body.dtype == contract_.tensors[static_cast<std::size_t>(made.output)].dtype)
      made.body = body.a;
  }
}

// What sums of squares are about: the mean of x in mean[k]((x[k] - m)^2), also by way of names and quotients.
void Compiler::mark_centres() {
  const std::function<void(const Definition&, int)> mark = [&](const Definition& in, int id) {
    if (id < 0) return;
    const Node& node = in.nodes[static_cast<std::size_t>(id)];
    for (const int child : {node.a, node.b, node.c}) mark(in, child);
    if (!loaded(node)) return;
    const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
    Definition& made = compiled_.definitions[static_cast<std::size_t>(source.definition)];
    if (made.reduce == Reduce::None) return mark(made, made.body);
    made.is_centre = adds_up(made.reduce);
  };
  for (const Definition& made : compiled_.definitions)
    if (Evaluator::is_variance(made)) mark(made, Evaluator::deviation(made).b);
}

void Compiler::mark_avoidable_overflow() {
  for (Definition& made : compiled_.definitions) {
    if (made.body < 0) continue;
    const Node& body = made.nodes[static_cast<std::size_t>(made.body)];
    const bool is_shifted = is_shifted_exponential(made.nodes, made.body);
    made.overflow_is_avoidable = body.exponential && !is_shifted;
    if (!is_shifted || body.op != Op::Mul || !adds_up(made.reduce)) continue;
    const auto is_exponential = [&](int id) { return made.nodes[static_cast<std::size_t>(id)].exponential; };
    if (is_exponential(body.a) != is_exponential(body.b))
      made.weighted = is_exponential(body.a) ? body.b : body.a;
  }
}

// Which definitions belong to a choice; and of one that is no output, which outputs tell it.
void Compiler::add_choice(Choice choice) {
  const std::vector<Definition>& definitions = compiled_.definitions;
  const auto loads_from = [&](const Node& node, std::size_t id) {
    if (node.op != Op::Load) return false;
    const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
    return !source.is_input && source.definition == static_cast<int>(id);
  };
  std::size_t weights = 0;
  while (definitions[weights].name != choice.weights) ++weights;
  std::size_t chosen = 0;
  while (!definitions[chosen].is_choice ||
         std::ranges::none_of(definitions[chosen].nodes,
                              [&](const Node& node) { return loads_from(node, weights); }))
    ++chosen;
  for (std::size_t id = 0; id < definitions.size() && !choice.is_output; ++id) {
    const Definition& made = definitions[id];
    for (const Node& node : made.nodes) {
      if (!loads_from(node, chosen)) continue;
      Choice::Told told;
      const bool is_final =
          made.output >= 0 && !made.is_scatter() && made.reduce == Reduce::None &&
          compiled_.final_definition[static_cast<std::size_t>(made.output)] == static_cast<int>(id);
      for (const int subscript : node.subscripts) {
        const Node& index = made.nodes[static_cast<std::size_t>(subscript)];
        for (std::size_t c = 0; c < made.coordinates.size() && index.op == Op::Index; ++c)
          if (made.coordinates[c].variable == index.ref) told.dimensions.push_back(static_cast<int>(c));
      }
      if (!is_final || told.dimensions.size() != node.subscripts.size()) {
        fail(node.place,
             fmt::format("the output elements do not show here what `{}` was; make `{}` an output",
                         choice.name, choice.name));
        return;
      }
      told.output = contract_.tensors[static_cast<std::size_t>(made.output)].name;
      const bool known = std::ranges::any_of(
          choice.told, [&](const Choice::Told& one) { return one.output == told.output; });
      if (!known) choice.told.push_back(std::move(told));
    }
  }
  if (!choice.is_output && choice.told.empty()) {
    fail(choice.place,
         fmt::format("no output shows what `{}` was; make it an output, or remove it", choice.name));
    return;
  }
  for (const Choice& other : compiled_.choices)
    for (const Choice::Told& told : choice.told)
      if (std::ranges::any_of(other.told,
                              [&](const Choice::Told& one) { return one.output == told.output; })) {
        fail(choice.place,
             fmt::format("`{}` depends on two draws that are not outputs; make one of them an output",
                         told.output));
        return;
      }
  compiled_.choice_definitions.push_back(static_cast<int>(chosen));
  compiled_.weight_definitions.push_back(static_cast<int>(weights));
  compiled_.choices.push_back(std::move(choice));
}

int Compiler::add(const Scope& scope, Node node) {
  std::vector<Node>& nodes = definition(scope).nodes;
  for (const int child : {node.a, node.b, node.c})
    if (child >= 0) node.indices |= nodes[static_cast<std::size_t>(child)].indices;
  for (const int child : node.subscripts) node.indices |= nodes[static_cast<std::size_t>(child)].indices;
  node.exponential = is_exponential(nodes, node);
  nodes.push_back(std::move(node));
  return static_cast<int>(nodes.size()) - 1;
}

bool Compiler::is_exponential(const std::vector<Node>& nodes, const Node& node) const {
  const auto child = [&](int id) { return id >= 0 && nodes[static_cast<std::size_t>(id)].exponential; };
  switch (node.op) {
    case Op::Exp:
    case Op::Exp2:
      return true;
    case Op::Mul:
    case Op::Div:
    case Op::Neg:
    case Op::CastFloat:
    case Op::If:
      return child(node.a) || child(node.b) || child(node.c);
    case Op::Load: {
      const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
      if (source.is_input) return false;
      const Definition& loaded = compiled_.definitions[static_cast<std::size_t>(source.definition)];
      return loaded.reduce == Reduce::None && loaded.nodes[static_cast<std::size_t>(loaded.body)].exponential;
    }
    default:
      return false;
  }
}

const Definition* Compiler::loaded(const Node& node) const {
  if (node.op != Op::Load) return nullptr;
  const Source& source = compiled_.sources[static_cast<std::size_t>(node.ref)];
  return source.is_input ? nullptr : &compiled_.definitions[static_cast<std::size_t>(source.definition)];
}

// exp(s[j] - max[k](s[k])), or a product with it. Any shift gives the same result in the end: an online softmax takes the
// maximum so far, or one that is older still.
bool Compiler::is_shifted_exponential(const std::vector<Node>& nodes, int id) const {
  if (id < 0) return false;
  const Node& node = nodes[static_cast<std::size_t>(id)];
  if (!node.exponential) return false;
  if (node.op == Op::Exp || node.op == Op::Exp2) return depends_on_extreme(nodes, node.a);
  if (const Definition* made = loaded(node)) return is_shifted_exponential(made->nodes, made->body);
  return is_shifted_exponential(nodes, node.a) || is_shifted_exponential(nodes, node.b) ||
         is_shifted_exponential(nodes, node.c);
}

bool Compiler::depends_on_extreme(const std::vector<Node>& nodes, int id) const {
  if (id < 0) return false;
  const Node& node = nodes[static_cast<std::size_t>(id)];
  if (const Definition* made = loaded(node))
    return made->reduce == Reduce::Max || made->reduce == Reduce::Min ||
           (made->reduce == Reduce::None && depends_on_extreme(made->nodes, made->body));
  return depends_on_extreme(nodes, node.a) || depends_on_extreme(nodes, node.b) ||
         depends_on_extreme(nodes, node.c);
}

int Compiler::add(const Scope& scope, Op op, Type type, Place place, int a, int b, int c) {
  Node node;
  node.op = op;
  node.type = type;
  node.place = place;
  node.a = a;
  node.b = b;
  node.c = c;
  return add(scope, std::move(node));
}

int Compiler::integer_node(const Scope& scope, int64_t value, Place place) {
  Node node;
  node.place = place;
  node.integer = value;
  return add(scope, std::move(node));
}

int Compiler::to_float(const Scope& scope, int node) {
  if (node < 0 || at(scope, node).type == Type::Float) return node;
  return add(scope, Op::ToFloat, Type::Float, at(scope, node).place, node);
}

int Compiler::to_number(const Scope& scope, int node) {  // Bool counts as 0 or 1
  if (node >= 0 && at(scope, node).type == Type::Bool) bool_to_int(scope, node);
  return node;
}

void Compiler::bool_to_int(const Scope& scope, int& node) {
  const int zero = integer_node(scope, 0, at(scope, node).place);
  const int one = integer_node(scope, 1, at(scope, node).place);
  node = add(scope, Op::If, Type::Int, at(scope, node).place, node, one, zero);
}

int Compiler::to_bool(const Scope& scope, int node) {
  if (node < 0 || at(scope, node).type == Type::Bool) return node;
  if (at(scope, node).type == Type::Float)
    return fail(at(scope, node).place, "expected a condition, found a number; compare it with something");
  return add(scope, Op::ToBool, Type::Bool, at(scope, node).place, node);
}

int Compiler::to_int(const Scope& scope, int node, std::string_view what) {
  if (node < 0) return node;
  if (at(scope, node).type == Type::Float)
    return fail(at(scope, node).place, fmt::format("{} must be an integer; convert with i64(...)", what));
  return to_number(scope, node);
}

// Both to the wider of their types.
Type Compiler::unify(const Scope& scope, int& a, int& b) {
  if (a < 0 || b < 0) return Type::Int;
  const Type ta = at(scope, a).type, tb = at(scope, b).type;
  if (ta == Type::Bool && tb == Type::Bool) return Type::Bool;
  if (ta == Type::Bool) bool_to_int(scope, a);
  if (tb == Type::Bool) bool_to_int(scope, b);
  if (ta != Type::Float && tb != Type::Float) return Type::Int;
  a = to_float(scope, a);
  b = to_float(scope, b);
  return Type::Float;
}

int Compiler::new_variable(Scope& scope, const std::string& name, Place place) {
  if (contract_.dim(name) || contract_.derived_dim(name) || contract_.scalar(name) ||
      contract_.tensor(name) || names_.contains(name))
    return fail(place, fmt::format("`{}` cannot be an index: it already names something else", name));
  std::vector<Variable>& variables = definition(scope).variables;
  if (variables.size() >= kMostVariables) return fail(place, "this statement has too many indices; split it");
  Variable variable;
  variable.name = name;
  variable.place = place;
  variables.push_back(std::move(variable));
  const int id = static_cast<int>(variables.size()) - 1;
  scope.names[name] = id;
  return id;
}

// The variable of this name as the scope's definition sees it; captured from
// outside if need be, which makes it a coordinate of the definition.
int Compiler::find_variable(Scope& scope, const std::string& name) {
  if (const auto found = scope.names.find(name); found != scope.names.end()) return found->second;
  if (!scope.outer) return -1;
  const int outer = find_variable(*scope.outer, name);
  if (outer < 0) return -1;
  std::vector<Variable>& variables = definition(scope).variables;
  if (variables.size() >= kMostVariables)
    return fail(definition(scope).place, "this statement has too many indices; split it");
  Variable variable;
  variable.name = name;
  variable.place = definition(*scope.outer).variables[static_cast<std::size_t>(outer)].place;
  variable.outer_definition = scope.outer->definition;
  variable.outer_variable = outer;
  variables.push_back(std::move(variable));
  const int id = static_cast<int>(variables.size()) - 1;
  definition(scope).coordinates.push_back({id, -1});
  scope.names[name] = id;
  return id;
}

int Compiler::index_node(Scope& scope, int variable, Place place) {
  Node node;
  node.op = Op::Index;
  node.place = place;
  node.ref = variable;
  node.indices = uint64_t{1} << variable;
  return add(scope, std::move(node));
}

void Compiler::record_use(const Scope& scope, int variable, Use use) {
  int definition_id = scope.definition;
  while (true) {
    Variable& found = compiled_.definitions[static_cast<std::size_t>(definition_id)]
                          .variables[static_cast<std::size_t>(variable)];
    if (found.outer_definition < 0) {
      (use.divisor == 1 ? found.uses : found.divided_uses).push_back(std::move(use));
      return;
    }
    definition_id = found.outer_definition;
    variable = found.outer_variable;
  }
}

Type reduced_type(Reduce reduce, Type body) {
  if (reduce == Reduce::Mean) return Type::Float;
  if (reduce == Reduce::ArgMax || reduce == Reduce::ArgMin) return Type::Int;
  return body;
}

std::string_view to_string(Reduce reduce) {
  constexpr std::string_view kNames[] = {"", "sum", "mean", "max", "min", "argmax", "argmin", "prod"};
  return kNames[static_cast<std::size_t>(reduce)];
}

Result<std::shared_ptr<const CompiledFormula>> compile(const Contract& contract, bool as_written) {
  Result<std::shared_ptr<const CompiledFormula>> compiled = Compiler(contract, as_written).run();
  if (!compiled) return compiled;
  const std::vector<Shape> shapes = telling_shapes(contract);
  if (shapes.empty())
    return Error{fmt::format("no shape was found that satisfies `{}`; check the ranges in [dims]",
                             contract.relations.empty() ? contract.derived[0].value.written()
                                                        : contract.relations[0].text),
                 contract.path};
  for (const Shape& shape : shapes) {
    Result<ShapedFormula> shaped = at_shape(contract, **compiled, shape);
    if (!shaped) return shaped.error();
  }
  return compiled;
}

}  // namespace assay::reference
