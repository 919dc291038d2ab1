// Reductions and assignments.
#include "contract/expr.h"
#include "reference/compiler.h"

namespace assay::reference {
namespace {

constexpr std::pair<std::string_view, Reduce> kReductions[] = {
    {"sum", Reduce::Sum},           {"mean", Reduce::Mean},         {"max", Reduce::Max},
    {"min", Reduce::Min},           {"argmax", Reduce::ArgMax},     {"argmin", Reduce::ArgMin},
    {"argmax_any", Reduce::ArgMax}, {"argmin_any", Reduce::ArgMin}, {"prod", Reduce::Prod},
};

constexpr std::size_t kMostDimensions = 16;

}  // namespace

int Compiler::new_definition(std::string defined, Place place) {
  Definition made;
  made.name = std::move(defined);
  made.place = place;
  compiled_.definitions.push_back(std::move(made));
  return static_cast<int>(compiled_.definitions.size()) - 1;
}

void Compiler::bind_range(Scope& scope, int variable, const Expr& low, const Expr& high, Context context,
                          bool on_left) {
  const int first =
      to_int(scope, expression(scope, low, {true, context.guarded, true}), "the end of a range");
  const int last =
      to_int(scope, expression(scope, high, {true, context.guarded, true}), "the end of a range");
  if (failed_) return;
  Variable& made = definition(scope).variables[static_cast<std::size_t>(variable)];
  made.low = first;
  made.high = last;
  made.range_text = fmt::format("{}..{}", to_text(low), to_text(high));
  const uint64_t used = at(scope, first).indices | at(scope, last).indices;
  if (on_left && used != 0)
    fail(made.place,
         fmt::format("the range of `{}`, on the left, cannot depend on another index", made.name));
  if ((used >> variable & 1) != 0)
    fail(made.place, fmt::format("the range of `{}` depends on itself", made.name));
}

int Compiler::reduction(Scope& outer, const Expr& expr, Context context) {
  Scope scope;
  scope.definition = new_definition(to_text(expr), expr.place);
  scope.outer = &outer;
  std::vector<int> reduced;
  for (const Binder& binder : expr.binders) {
    if (scope.names.contains(binder.name) || find_in_outer(outer, binder.name))
      return fail(binder.place,
                  fmt::format("the index `{}` is already in use here; choose another name", binder.name));
    const int variable = new_variable(scope, binder.name, binder.place);
    if (variable < 0) return -1;
    if (binder.low) bind_range(scope, variable, *binder.low, *binder.high, context, false);
    if (failed_) return -1;
    reduced.push_back(variable);
  }
  const bool filtered = expr.children.size() > 1;
  int filter = -1;
  if (filtered) filter = to_bool(scope, expression(scope, *expr.children[1], {false, context.guarded}));
  int body = expression(scope, *expr.children[0], {false, context.guarded || filtered});
  if (failed_) return -1;
  body = to_number(scope, body);
  Definition& made = definition(scope);
  for (const auto& [word, reduce] : kReductions)
    if (word == expr.name) made.reduce = reduce;
  made.any_of_equals = expr.name == "argmax_any" || expr.name == "argmin_any";
  if ((made.reduce == Reduce::ArgMax || made.reduce == Reduce::ArgMin) && reduced.size() != 1)
    return fail(expr.place, fmt::format("`{}` takes one index", expr.name));
  if (made.reduce == Reduce::Mean || made.reduce == Reduce::Prod) body = to_float(scope, body);
  definition(scope).reduced = std::move(reduced);
  definition(scope).filter = filter;
  definition(scope).body = body;
  definition(scope).key = canonical_text(expr);
  const int twin = find_twin(outer, scope);
  if (twin >= 0) {
    compiled_.definitions.resize(static_cast<std::size_t>(scope.definition));
    scope.definition = twin;
  }
  return load_captured(outer, scope, expr);
}

// Which variable of the statement a captured one is.
std::pair<int, int> Compiler::origin(int definition_id, int variable) const {
  while (true) {
    const Variable& made = compiled_.definitions[static_cast<std::size_t>(definition_id)]
                               .variables[static_cast<std::size_t>(variable)];
    if (made.outer_definition < 0) return {definition_id, variable};
    definition_id = made.outer_definition;
    variable = made.outer_variable;
  }
}

// The same reduction of the same indices, written before in this statement:
// one tensor, so that its error is one error.
int Compiler::find_twin(const Scope& outer, const Scope& scope) {
  const Definition& made = definition(scope);
  const Scope* root = &outer;
  while (root->outer) root = root->outer;
  for (int id = root->definition + 1; id < scope.definition; ++id) {
    const Definition& other = compiled_.definitions[static_cast<std::size_t>(id)];
    if (other.key != made.key || other.coordinates.size() != made.coordinates.size()) continue;
    bool same = true;
    for (std::size_t i = 0; i < made.coordinates.size() && same; ++i)
      same =
          origin(scope.definition, made.coordinates[i].variable) == origin(id, other.coordinates[i].variable);
    // Without coordinates nothing tells where it stands; the same text is the same value.
    if (same) return id;
  }
  return -1;
}

// The reduction's result as an element of its own tensor.
int Compiler::load_captured(Scope& outer, const Scope& scope, const Expr& expr) {
  Node node;
  node.op = Op::Load;
  node.place = expr.place;
  const Definition& made = definition(scope);
  node.type = reduced_type(made.reduce, made.type());
  node.text = made.name;
  node.guarded = true;  // verified where it is used, not here
  std::vector<std::string> captured;
  for (const Coordinate& coordinate : made.coordinates)
    captured.push_back(made.variables[static_cast<std::size_t>(coordinate.variable)].name);
  for (const std::string& index : captured)
    node.subscripts.push_back(index_node(outer, find_variable(outer, index), expr.place));
  node.ref = add_source({false, -1, scope.definition});
  return add(outer, std::move(node));
}

void Compiler::statement(const Statement& written) {
  const TensorSpec* spec = contract_.tensor(written.name);
  const int tensor = spec ? static_cast<int>(spec - contract_.tensors.data()) : -1;
  if (spec && !spec->is_output()) {
    fail(written.place,
         fmt::format("`{}` is an input; only outputs and new names can be assigned", written.name));
    return;
  }
  if (contract_.dim(written.name) || contract_.derived_dim(written.name) || contract_.scalar(written.name)) {
    fail(written.place, fmt::format("`{}` is given by the caller and cannot be assigned", written.name));
    return;
  }
  Scope scope;
  scope.definition = new_definition(written.name, written.place);
  scope.implicit = written.kind != AssignKind::Set;
  definition(scope).output = tensor;
  const auto before = names_.find(written.name);
  const int previous = before == names_.end() ? -1 : before->second;
  left_side(scope, written, spec, tensor, previous);
  for (const contract::Binder& loop : written.loops)
    if (!failed_)
      bind_range(scope, new_variable(scope, loop.name, loop.place), *loop.low, *loop.high, {}, false);
  if (failed_) return;
  int body = expression(scope, *written.body, {});
  if (failed_) return;
  body = finish_body(scope, body, spec, written.kind);
  if (failed_) return;
  Definition& made = definition(scope);
  made.body = body;
  made.is_choice = std::ranges::any_of(made.nodes, [](const Node& node) { return node.op == Op::Choice; });
  if (written.kind != AssignKind::Set) {
    made.reduce = written.kind == AssignKind::Sum   ? Reduce::Sum
                  : written.kind == AssignKind::Max ? Reduce::Max
                                                    : Reduce::Min;
    made.previous = previous;
    if (previous >= 0 && (source_type(previous) == Type::Float) != (made.type() == Type::Float)) {
      fail(written.place, fmt::format("`{}` held {} above and cannot hold {} here", written.name,
                                      made.type() == Type::Float ? "integers" : "real numbers",
                                      made.type() == Type::Float ? "real numbers" : "integers"));
      return;
    }
  } else if (made.is_scatter()) {
    made.previous = previous;
  }
  reduce_the_rest(made);
  const int source = add_source({false, -1, scope.definition});
  names_[written.name] = source;
  if (tensor >= 0) compiled_.final_definition[static_cast<std::size_t>(tensor)] = scope.definition;
}

// Indices that are not plain on the left are loops of the statement.
void Compiler::reduce_the_rest(Definition& made) {
  for (std::size_t v = 0; v < made.variables.size(); ++v) {
    const bool plain = std::ranges::any_of(
        made.coordinates, [&](const Coordinate& c) { return c.variable == static_cast<int>(v); });
    if (!plain) made.reduced.push_back(static_cast<int>(v));
  }
}

int Compiler::finish_body(Scope& scope, int body, const TensorSpec* spec, AssignKind kind) {
  if (!spec) return kind == AssignKind::Set ? body : to_number(scope, body);
  const DTypeKind want = info(spec->dtype).kind;
  if (want == DTypeKind::Float) return to_float(scope, to_number(scope, body));
  if (want == DTypeKind::Bool && at(scope, body).type == Type::Float)
    return fail(at(scope, body).place, fmt::format("`{}` is bool; write a condition", spec->name));
  if (want == DTypeKind::Bool && kind == AssignKind::Set) return to_bool(scope, body);
  body = to_number(scope, body);
  if (at(scope, body).type != Type::Float) return body;
  const int store = add(scope, Op::StoreInt, Type::Int, at(scope, body).place, body);
  at(scope, store).dtype = spec->dtype;
  return store;
}

void Compiler::left_side(Scope& scope, const Statement& written, const TensorSpec* spec, int tensor,
                         int previous) {
  const std::size_t have = written.left.size();
  if (have > kMostDimensions) {
    fail(written.place, fmt::format("`{}` has more than {} dimensions", written.name, kMostDimensions));
    return;
  }
  if (spec && have != spec->shape.size() && !(have == 0 && is_single(*spec))) {
    fail(written.place, index_count(written.name, spec->shape.size(), have));
    return;
  }
  if (spec && have == 0)
    for (std::size_t i = 0; i < spec->shape.size(); ++i) {
      const int zero = integer_node(scope, 0, written.place);
      definition(scope).coordinates.push_back({-1, zero, "0"});
    }
  const bool keeps = previous >= 0 && !spec && written.kind != AssignKind::Set;
  if (keeps && have != rank(previous)) {
    fail(written.place, index_count(written.name, rank(previous), have));
    return;
  }
  // Plain indices first, so that computed places may use those that come later.
  std::vector<int> plain(have, -1);
  for (std::size_t i = 0; i < have && !failed_; ++i) {
    const Expr& expr = *written.left[i].expr;
    const bool is_index = expr.kind == ExprKind::Name && !contract_.dim(expr.name) &&
                          !contract_.derived_dim(expr.name) && !contract_.scalar(expr.name) &&
                          !contract_.tensor(expr.name) && !names_.contains(expr.name) &&
                          !scope.names.contains(expr.name);
    if (is_index) plain[i] = new_variable(scope, expr.name, expr.place);
  }
  for (std::size_t i = 0; i < have && !failed_; ++i)
    place(scope, written, i, plain[i], tensor, keeps ? previous : -1);
  if (failed_ || !definition(scope).is_scatter() || spec) return;
  if (previous < 0)
    fail(written.place,
         fmt::format("the shape of `{}` is not known; define it first, as in `{}[i in 0..n] = 0`",
                     written.name, written.name));
  definition(scope).shape_source = previous;
}

void Compiler::place(Scope& scope, const Statement& written, std::size_t i, int variable, int tensor,
                     int previous) {
  const Left& left = written.left[i];
  if (variable < 0) {
    // Names that nothing else binds are loops of the statement, as in dw[tokens[t], d].
    const bool implicit = scope.implicit;
    scope.implicit = true;
    const int node = to_int(scope, expression(scope, *left.expr, {true, false}), "an index on the left");
    scope.implicit = implicit;
    definition(scope).coordinates.push_back({-1, node, to_text(*left.expr)});
    return;
  }
  definition(scope).coordinates.push_back({variable, -1});
  if (left.low) bind_range(scope, variable, *left.low, *left.high, {}, true);
  if (tensor < 0 && previous < 0) return;
  Use use;
  use.output = tensor;
  use.source = tensor < 0 ? previous : -1;
  use.coordinate = static_cast<int>(i);
  use.text = fmt::format("{} on the left", written.name);
  use.place = left.expr->place;
  record_use(scope, variable, std::move(use));
}

}  // namespace assay::reference
