// Expressions: what stands on the right.
#include "contract/complex.h"
#include "reference/arithmetic.h"
#include "reference/choices.h"
#include "reference/compiler.h"
#include "reference/shifted.h"

namespace assay::reference {
namespace {

struct FunctionRow {
  std::string_view name;
  Op op;
};
constexpr FunctionRow kFunctions[] = {
    {"exp", Op::Exp},           {"exp2", Op::Exp2},   {"expm1", Op::Expm1}, {"log", Op::Log},
    {"log2", Op::Log2},         {"log1p", Op::Log1p}, {"sqrt", Op::Sqrt},   {"rsqrt", Op::Rsqrt},
    {"tanh", Op::Tanh},         {"erf", Op::Erf},     {"erfc", Op::Erfc},   {"sigmoid", Op::Sigmoid},
    {"softplus", Op::Softplus}, {"sin", Op::Sin},     {"cos", Op::Cos},
};
// What the logarithm is of that was shifted by this.
Arithmetic::LogOf kind_of_shift(const std::vector<Node>& nodes, int id) {
  const Node& node = nodes[static_cast<std::size_t>(id)];
  if (node.op == Op::Shift && node.integer == 0) return Arithmetic::LogOf::Shared;
  const auto part = [&](int child) {
    return child >= 0 && kind_of_shift(nodes, child) != Arithmetic::LogOf::OneElement;
  };
  const bool sum = node.op == Op::Add || node.op == Op::Sub || node.op == Op::Neg;
  return sum && (part(node.a) || part(node.b)) ? Arithmetic::LogOf::Quotient : Arithmetic::LogOf::OneElement;
}

// These keep integers as they are.
constexpr FunctionRow kRoundings[] = {{"floor", Op::Floor}, {"ceil", Op::Ceil}, {"round", Op::Round}};

}  // namespace

int Compiler::expression(Scope& scope, const Expr& expr, Context context) {
  if (failed_) return -1;
  switch (expr.kind) {
    case ExprKind::Integer:
      return integer_node(scope, expr.integer, expr.place);
    case ExprKind::Bool: {
      const int one = integer_node(scope, expr.integer, expr.place);
      return add(scope, Op::ToBool, Type::Bool, expr.place, one);
    }
    case ExprKind::Real: {
      Node node;
      node.op = Op::Real;
      node.type = Type::Float;
      node.place = expr.place;
      node.real = expr.real;
      return add(scope, std::move(node));
    }
    case ExprKind::Name:
      return name(scope, expr);
    case ExprKind::Element:
      return element(scope, expr, context);
    case ExprKind::Unary: {
      const int operand = expression(scope, *expr.children[0], context);
      if (operand < 0) return -1;
      if (expr.name == "not") return add(scope, Op::Not, Type::Bool, expr.place, to_bool(scope, operand));
      const int number = to_number(scope, operand);
      return add(scope, Op::Neg, at(scope, number).type, expr.place, number);
    }
    case ExprKind::Binary:
      return binary(scope, expr, context);
    case ExprKind::If:
      return conditional(scope, expr, context);
    case ExprKind::Call:
      return call(scope, expr, context);
    case ExprKind::Reduce:
      return reduction(scope, expr, context);
  }
  return -1;
}

int Compiler::unknown(const std::string& word, Place place, bool subscripted) {
  std::vector<std::string> known;
  if (!subscripted) {
    for (const Dim& dim : contract_.dims) known.push_back(dim.name);
    for (const contract::DerivedDim& dim : contract_.derived) known.push_back(dim.name);
    for (const ScalarSpec& scalar : contract_.scalars)
      known.push_back(scalar.name.substr(0, scalar.name.find('.')));  // a complex one is known by its name
  }
  for (const auto& [known_name, source] : names_) known.push_back(known_name);
  const std::string near = nearest(word, known);
  if (!near.empty()) return fail(place, fmt::format("`{}` is not defined; did you mean `{}`?", word, near));
  if (subscripted)
    return fail(place,
                fmt::format("`{}` is not defined; define it in a statement above, or as a table [tensors.{}]",
                            word, word));
  return fail(place,
              fmt::format("`{}` is not defined; an index must appear on the left side, or be bound by a "
                          "reduction, as in sum[{}](...)",
                          word, word));
}

std::string Compiler::not_a_tensor(const std::string& word) const {
  std::vector<std::string> tensors;
  for (const TensorSpec& spec : contract_.tensors) tensors.push_back(spec.name);
  const std::string near = nearest(word, tensors);
  return fmt::format("`{}` is not a tensor of the contract{}", word,
                     near.empty() ? "" : fmt::format("; did you mean `{}`?", near));
}

int Compiler::name(Scope& scope, const Expr& expr) {
  for (std::size_t i = 0; i < contract_.dims.size(); ++i)
    if (contract_.dims[i].name == expr.name) return leaf(scope, Op::Dim, Type::Int, int(i), expr.place);
  for (std::size_t i = 0; i < contract_.derived.size(); ++i)
    if (contract_.derived[i].name == expr.name)
      return leaf(scope, Op::Dim, Type::Int, int(contract_.dims.size() + i), expr.place);
  for (std::size_t i = 0; i < contract_.scalars.size(); ++i)
    if (contract_.scalars[i].name == expr.name)
      return leaf(scope, Op::Scalar, type_of(contract_.scalars[i].dtype), int(i), expr.place);
  if (names_.contains(expr.name) || contract_.tensor(expr.name)) return element(scope, expr, {});
  if (expr.name.ends_with(')')) {  // present(x)
    const std::string tensor =
        expr.name.substr(expr.name.find('(') + 1, expr.name.size() - expr.name.find('(') - 2);
    return fail(expr.place, contract_.tensor(tensor)
                                ? fmt::format("`{}` is always present; write optional = true in [tensors.{}]",
                                              tensor, tensor)
                                : not_a_tensor(tensor));
  }
  int variable = find_variable(scope, expr.name);
  if (failed_) return -1;
  if (variable < 0) {
    Scope* root = &scope;
    while (root->outer) root = root->outer;
    if (!root->implicit) return unknown(expr.name, expr.place, false);
    const int made = new_variable(*root, expr.name, expr.place);
    if (made < 0) return -1;
    definition(*root).variables[static_cast<std::size_t>(made)].implicit = true;
    variable = find_variable(scope, expr.name);
  }
  return variable < 0 ? -1 : index_node(scope, variable, expr.place);
}

int Compiler::leaf(Scope& scope, Op op, Type type, int ref, Place place) {
  Node node;
  node.op = op;
  node.type = type;
  node.place = place;
  node.ref = ref;
  return add(scope, std::move(node));
}

Type Compiler::type_of(DType dtype) {
  const DTypeKind kind = info(dtype).kind;
  return kind == DTypeKind::Float ? Type::Float : kind == DTypeKind::Bool ? Type::Bool : Type::Int;
}

Type Compiler::source_type(int source) const {
  const Source& from = compiled_.sources[static_cast<std::size_t>(source)];
  if (from.is_input) return type_of(contract_.tensors[static_cast<std::size_t>(from.tensor)].dtype);
  const Definition& defined = compiled_.definitions[static_cast<std::size_t>(from.definition)];
  return reduced_type(defined.reduce, defined.type());
}

std::size_t Compiler::rank(int source) const {
  const Source& from = compiled_.sources[static_cast<std::size_t>(source)];
  if (from.is_input) return contract_.tensors[static_cast<std::size_t>(from.tensor)].shape.size();
  return compiled_.definitions[static_cast<std::size_t>(from.definition)].coordinates.size();
}

bool Compiler::is_single(const TensorSpec& spec) {
  return std::ranges::all_of(spec.shape, [](const IntExpr& e) { return e.is_literal() && e.text() == "1"; });
}

bool Compiler::is_single(int source) const {
  const Source& from = compiled_.sources[static_cast<std::size_t>(source)];
  const int tensor =
      from.is_input ? from.tensor : compiled_.definitions[static_cast<std::size_t>(from.definition)].output;
  return tensor >= 0 && is_single(contract_.tensors[static_cast<std::size_t>(tensor)]);
}

// A tensor's element, or a whole tensor of one element by its bare name.
int Compiler::element(Scope& scope, const Expr& expr, Context context) {
  const auto found = names_.find(expr.name);
  if (found == names_.end()) {
    if (contract_.tensor(expr.name))
      return fail(expr.place,
                  fmt::format("the output `{}` has no value yet; assign it in a statement above", expr.name));
    if (contract_.dim(expr.name) || contract_.derived_dim(expr.name) || contract_.scalar(expr.name))
      return fail(expr.place, fmt::format("`{}` is a number and takes no indices", expr.name));
    return unknown(expr.name, expr.place, true);
  }
  const int source = found->second;
  const contract::TensorSpec* given = contract_.tensor(expr.name);
  if (given && given->optional && !context.guarded)
    return fail(
        expr.place,
        fmt::format("`{0}` is optional; define the result without it: if present({0}) then ... else ...",
                    expr.name));
  Node node;
  node.op = Op::Load;
  node.place = expr.place;
  node.type = source_type(source);
  node.ref = source;
  node.guarded = context.guarded;
  node.text = to_text(expr);
  const std::size_t want = rank(source);
  if (expr.children.size() != want) {
    if (!(expr.children.empty() && is_single(source)))
      return fail(expr.place, index_count(expr.name, want, expr.children.size()));
    for (std::size_t i = 0; i < want; ++i) node.subscripts.push_back(integer_node(scope, 0, expr.place));
  }
  for (std::size_t i = 0; i < expr.children.size(); ++i) {
    const int subscript = to_int(
        scope, expression(scope, *expr.children[i], {true, context.guarded, context.bound}), "an index");
    if (subscript < 0) return -1;
    node.subscripts.push_back(subscript);
    Use use;
    use.source = source;
    use.coordinate = static_cast<int>(i);
    use.guarded = context.guarded || context.bound;
    use.text = node.text;
    use.place = expr.place;
    const Node* index = &at(scope, subscript);
    if (index->op == Op::FloorDiv && at(scope, index->b).op == Op::Integer &&
        at(scope, index->b).integer > 0) {
      use.divisor = at(scope, index->b).integer;
      index = &at(scope, index->a);
    }
    if (index->op == Op::Index) record_use(scope, index->ref, std::move(use));
  }
  const int load = add(scope, std::move(node));
  return stored_in_between(scope, source, load);
}

// An output that is read back may have been rounded to its dtype on the way.
int Compiler::stored_in_between(Scope& scope, int source, int load) {
  const Source& from = compiled_.sources[static_cast<std::size_t>(source)];
  if (from.is_input || at(scope, load).type != Type::Float) return load;
  const int output = compiled_.definitions[static_cast<std::size_t>(from.definition)].output;
  if (output < 0) return load;
  const DType dtype = contract_.tensors[static_cast<std::size_t>(output)].dtype;
  const int cast = add(scope, Op::CastFloat, Type::Float, at(scope, load).place, load);
  at(scope, cast).dtype = dtype;
  return cast;
}

int Compiler::binary(Scope& scope, const Expr& expr, Context context) {
  const std::string& sign = expr.name;
  if (sign == "%") context.index = true;  // only integers have a remainder, so `/` is that of integers there
  int a = expression(scope, *expr.children[0], context);
  const bool lazy = sign == "and" || sign == "or";
  int b = expression(scope, *expr.children[1], {context.index, context.guarded || lazy, context.bound});
  if (a < 0 || b < 0) return -1;
  const Place place = expr.place;
  if (lazy) {
    a = to_bool(scope, a);
    b = to_bool(scope, b);
    return a < 0 || b < 0 ? -1 : add(scope, sign == "and" ? Op::And : Op::Or, Type::Bool, place, a, b);
  }
  if (sign == "<" || sign == "<=" || sign == ">" || sign == ">=" || sign == "==" || sign == "!=") {
    if (unify(scope, a, b) == Type::Bool) {
      a = to_number(scope, a);
      b = to_number(scope, b);
    }
    if (sign == "==") return add(scope, Op::Equal, Type::Bool, place, a, b);
    if (sign == "!=") return add(scope, Op::NotEqual, Type::Bool, place, a, b);
    if (sign[0] == '>') std::swap(a, b);
    return add(scope, sign.size() == 2 ? Op::LessEqual : Op::Less, Type::Bool, place, a, b);
  }
  a = to_number(scope, a);
  b = to_number(scope, b);
  if (sign == "^") return power(scope, a, b, place);
  const Type type = unify(scope, a, b);
  if (sign == "%") {
    if (type == Type::Float) return fail(place, "`%` is only defined for integers");
    return add(scope, Op::Mod, Type::Int, place, a, b);
  }
  if (sign == "/") {
    if (type == Type::Int && context.index) return add(scope, Op::FloorDiv, Type::Int, place, a, b);
    const int quotient = add(scope, Op::Div, Type::Float, place, to_float(scope, a), to_float(scope, b));
    at(scope, quotient).integer = type == Type::Int;
    return quotient;
  }
  // x * x is one error in both factors, not two independent ones.
  if (sign == "*" && type == Type::Float && to_text(*expr.children[0]) == to_text(*expr.children[1])) {
    const int square = add(scope, Op::Pow, Type::Float, place, a);
    at(scope, square).integer = 2;
    at(scope, square).literal_exponent = true;
    return square;
  }
  const Op op = sign == "+" ? Op::Add : sign == "-" ? Op::Sub : Op::Mul;
  const int made = add(scope, op, type, place, a, b);
  if (type == Type::Float && op != Op::Mul) at(scope, made).integer = expr.integer;
  return made;
}

int Compiler::power(Scope& scope, int base, int exponent, Place place) {
  int sign = 1;
  int literal = exponent;
  if (at(scope, literal).op == Op::Neg) {
    literal = at(scope, literal).a;
    sign = -1;
  }
  const bool is_literal = at(scope, literal).op == Op::Integer && at(scope, literal).integer <= 64;
  const int64_t value = sign * at(scope, literal).integer;
  if (is_literal && at(scope, base).type == Type::Int && value >= 0) {
    const int node = add(scope, Op::Pow, Type::Int, place, base);
    at(scope, node).integer = value;
    at(scope, node).literal_exponent = true;
    return node;
  }
  base = to_float(scope, base);
  if (is_literal) {
    const int node = add(scope, Op::Pow, Type::Float, place, base);
    at(scope, node).integer = value;
    at(scope, node).literal_exponent = true;
    return node;
  }
  return add(scope, Op::Pow, Type::Float, place, base, to_float(scope, exponent));
}

int Compiler::conditional(Scope& scope, const Expr& expr, Context context) {
  const int condition = to_bool(scope, expression(scope, *expr.children[0], context));
  // The parts of a complex number have the same ranges.
  const bool guarded = expr.name != contract::kPartChoice || context.guarded;
  int yes = expression(scope, *expr.children[1], {context.index, guarded});
  int no = expression(scope, *expr.children[2], {context.index, guarded});
  if (condition < 0 || yes < 0 || no < 0) return -1;
  const Type type = unify(scope, yes, no);
  return add(scope, Op::If, type, expr.place, condition, yes, no);
}

int Compiler::arguments(Scope& scope, const Expr& expr, Context context, std::size_t least, std::size_t most,
                        std::vector<int>& list) {
  if (expr.children.size() < least || expr.children.size() > most)
    return fail(expr.place, fmt::format("`{}` takes {} argument{}, not {}", expr.name,
                                        least == most ? std::to_string(least) : "two or more",
                                        most == 1 ? "" : "s", expr.children.size()));
  for (const ExprPtr& child : expr.children) {
    list.push_back(to_number(scope, expression(scope, *child, context)));
    if (failed_) return -1;
  }
  return 0;
}

int Compiler::call(Scope& scope, const Expr& expr, Context context) {
  const Place place = expr.place;
  std::vector<int> list;
  if (expr.name == "min" || expr.name == "max") {
    if (arguments(scope, expr, context, 2, 64, list) < 0) return -1;
    int result = list[0];
    for (std::size_t i = 1; i < list.size(); ++i) {
      int next = list[i];
      const Type type = unify(scope, result, next);
      result = add(scope, expr.name == "min" ? Op::Min : Op::Max, type, place, result, next);
    }
    return result;
  }
  if (expr.name == "pow" || expr.name == "ceil_div") {
    if (arguments(scope, expr, context, 2, 2, list) < 0) return -1;
    if (expr.name == "pow") return power(scope, list[0], list[1], place);
    if (unify(scope, list[0], list[1]) == Type::Float)
      return fail(place, "`ceil_div` is only defined for integers");
    return add(scope, Op::CeilDiv, Type::Int, place, list[0], list[1]);
  }
  constexpr std::pair<std::string_view, Op> kBitOperations[] = {{"bit_and", Op::BitAnd},
                                                                {"bit_or", Op::BitOr},
                                                                {"bit_xor", Op::BitXor},
                                                                {"shift_left", Op::ShiftLeft},
                                                                {"shift_right", Op::ShiftRight}};
  for (const auto& [word, op] : kBitOperations) {
    if (expr.name != word) continue;
    context.index = true;  // of integers only
    if (arguments(scope, expr, context, 2, 2, list) < 0) return -1;
    if (unify(scope, list[0], list[1]) == Type::Float)
      return fail(place, fmt::format("`{}` is only defined for integers", word));
    return add(scope, op, Type::Int, place, list[0], list[1]);
  }
  if (expr.name == "bit_not") {
    if (arguments(scope, expr, context, 1, 1, list) < 0) return -1;
    if (at(scope, list[0]).type == Type::Float) return fail(place, "`bit_not` is only defined for integers");
    return add(scope, Op::BitXor, Type::Int, place, list[0], integer_node(scope, -1, place));
  }
  if (expr.name == kLogOfScaled) {
    if (arguments(scope, expr, context, 2, 2, list) < 0) return -1;
    const int shift = to_float(scope, list[0]), rest = to_float(scope, list[1]);
    const int sum = add(scope, Op::Add, Type::Float, place, shift, rest);
    at(scope, sum).integer = static_cast<int64_t>(kind_of_shift(definition(scope).nodes, shift));
    return sum;
  }
  if (expr.name == kChoiceBool || expr.name == kChoiceInt || expr.name == kChoiceFloat) {
    const int weight = expression(scope, *expr.children[0], {context.index, true});
    const Type type = expr.name == kChoiceBool  ? Type::Bool
                      : expr.name == kChoiceInt ? Type::Int
                                                : Type::Float;
    return weight < 0 ? -1 : add(scope, Op::Choice, type, place, weight);
  }
  if (const auto dtype = dtype_named(expr.name)) return cast(scope, expr, context, *dtype);
  if (arguments(scope, expr, context, 1, 1, list) < 0) return -1;
  const int operand = list[0];
  const Type type = at(scope, operand).type;
  if (expr.name == "abs") return add(scope, Op::Abs, type, place, operand);
  if (expr.name == "sign") return add(scope, Op::Sign, type, place, operand);
  if (expr.name == kShift || expr.name == kPivot) {
    const int node = add(scope, Op::Shift, Type::Float, place, to_float(scope, operand));
    at(scope, node).integer = expr.name == kPivot;
    return node;
  }
  if (expr.name == "isnan") return add(scope, Op::IsNan, Type::Bool, place, to_float(scope, operand));
  for (const FunctionRow& row : kRoundings)
    if (row.name == expr.name)
      return type == Type::Int ? operand : add(scope, row.op, Type::Float, place, operand);
  for (const FunctionRow& row : kFunctions)
    if (row.name == expr.name) return add(scope, row.op, Type::Float, place, to_float(scope, operand));
  if (expr.name == "relu") {
    int value = operand, zero = integer_node(scope, 0, place);
    const Type wider = unify(scope, value, zero);
    return add(scope, Op::Max, wider, place, value, zero);
  }
  if (expr.name == "silu") {
    const int value = to_float(scope, operand);
    return add(scope, Op::Mul, Type::Float, place, value, add(scope, Op::Sigmoid, Type::Float, place, value));
  }
  return fail(place, fmt::format("`{}` is not a function", expr.name));
}

int Compiler::cast(Scope& scope, const Expr& expr, Context context, DType dtype) {
  if (expr.children.size() != 1)
    return fail(expr.place, fmt::format("`{}` takes 1 argument, not {}", expr.name, expr.children.size()));
  int operand = expression(scope, *expr.children[0], context);
  if (operand < 0) return -1;
  if (info(dtype).kind == DTypeKind::Bool) {
    if (at(scope, operand).type != Type::Float) return to_bool(scope, operand);
    Node zero;
    zero.op = Op::Real;
    zero.type = Type::Float;
    zero.place = expr.place;
    const int zero_node = add(scope, std::move(zero));
    return add(scope, Op::NotEqual, Type::Bool, expr.place, operand, zero_node);
  }
  operand = to_number(scope, operand);
  const bool to_real = is_float(dtype);
  if (to_real) operand = to_float(scope, operand);
  const int node = add(scope, to_real ? Op::CastFloat : Op::CastInt, to_real ? Type::Float : Type::Int,
                       expr.place, operand);
  at(scope, node).dtype = dtype;
  at(scope, node).rescaled = to_real && is_shifted_exponential(definition(scope).nodes, operand);
  return node;
}

}  // namespace assay::reference
