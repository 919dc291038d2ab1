// Names, types and scopes: from the tree of a formula to a Program.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "contract/formula.h"
#include "contract/plan.h"
#include "contract/program.h"

namespace assay::contract {
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
// These keep integers as they are.
constexpr FunctionRow kRoundings[] = {{"floor", Op::Floor}, {"ceil", Op::Ceil}, {"round", Op::Round}};

constexpr std::pair<std::string_view, Reduce> kReductions[] = {
    {"sum", Reduce::Sum}, {"mean", Reduce::Mean},     {"max", Reduce::Max},
    {"min", Reduce::Min}, {"argmax", Reduce::ArgMax}, {"argmin", Reduce::ArgMin},
};

constexpr std::size_t kMostVariables = 60;
constexpr std::size_t kMostDimensions = 16;

// Where an expression stands.
struct Context {
  bool index = false;    // a subscript or the end of a range: `/` is floor division
  bool guarded = false;  // evaluated only where a condition holds
  bool bound = false;    // the end of a range: its subscripts say little of other ranges
};

struct Scope {
  int definition = -1;
  Scope* outer = nullptr;
  bool implicit = false;  // unknown names are indices to reduce over (`+=`)
  std::map<std::string, int, std::less<>> names;
};

class Compiler {
 public:
  explicit Compiler(const Contract& contract) : contract_(contract) {
    program_.final_definition.assign(contract.tensors.size(), -1);
    for (std::size_t i = 0; i < contract.tensors.size(); ++i)
      if (contract.tensors[i].is_input()) names_[contract.tensors[i].name] = add_source({true, int(i), -1});
  }

  Result<std::shared_ptr<const Program>> run() {
    const ReferenceSpec& reference = contract_.reference;
    Result<Formula> formula = parse_formula(reference.formula, reference.formula_place, contract_.path);
    if (!formula) return formula.error();
    for (const Statement& written : formula->statements) {
      statement(written);
      if (failed_) return error_;
    }
    for (std::size_t i = 0; i < contract_.tensors.size(); ++i)
      if (contract_.tensors[i].is_output() && program_.final_definition[i] < 0)
        return Error{fmt::format("the formula never defines the output '{}'", contract_.tensors[i].name),
                     contract_.path, reference.formula_place.line, reference.formula_place.column};
    return std::make_shared<const Program>(std::move(program_));
  }

 private:
  int fail(Place place, std::string message) {
    if (!failed_) error_ = {std::move(message), contract_.path, place.line, place.column};
    failed_ = true;
    return -1;
  }

  int add_source(Source source) {
    program_.sources.push_back(source);
    return static_cast<int>(program_.sources.size()) - 1;
  }

  Definition& definition(const Scope& scope) {
    return program_.definitions[static_cast<std::size_t>(scope.definition)];
  }
  Node& at(const Scope& scope, int node) { return definition(scope).nodes[static_cast<std::size_t>(node)]; }

  int add(const Scope& scope, Node node) {
    std::vector<Node>& nodes = definition(scope).nodes;
    for (const int child : {node.a, node.b, node.c})
      if (child >= 0) node.indices |= nodes[static_cast<std::size_t>(child)].indices;
    for (const int child : node.subscripts) node.indices |= nodes[static_cast<std::size_t>(child)].indices;
    node.exponential = is_exponential(nodes, node);
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }

  bool is_exponential(const std::vector<Node>& nodes, const Node& node) const {
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
        const Source& source = program_.sources[static_cast<std::size_t>(node.ref)];
        if (source.is_input) return false;
        const Definition& loaded = program_.definitions[static_cast<std::size_t>(source.definition)];
        return loaded.reduce == Reduce::None &&
               loaded.nodes[static_cast<std::size_t>(loaded.body)].exponential;
      }
      default:
        return false;
    }
  }

  int add(const Scope& scope, Op op, Type type, Place place, int a, int b = -1, int c = -1) {
    Node node;
    node.op = op;
    node.type = type;
    node.place = place;
    node.a = a;
    node.b = b;
    node.c = c;
    return add(scope, std::move(node));
  }

  int integer_node(const Scope& scope, int64_t value, Place place) {
    Node node;
    node.place = place;
    node.integer = value;
    return add(scope, std::move(node));
  }

  // ---- conversions -----------------------------------------------------------

  int to_float(const Scope& scope, int node) {
    if (node < 0 || at(scope, node).type == Type::Float) return node;
    return add(scope, Op::ToFloat, Type::Float, at(scope, node).place, node);
  }
  int to_number(const Scope& scope, int node) {  // Bool counts as 0 or 1
    if (node >= 0 && at(scope, node).type == Type::Bool) bool_to_int(scope, node);
    return node;
  }
  void bool_to_int(const Scope& scope, int& node) {
    const int zero = integer_node(scope, 0, at(scope, node).place);
    const int one = integer_node(scope, 1, at(scope, node).place);
    node = add(scope, Op::If, Type::Int, at(scope, node).place, node, one, zero);
  }
  int to_bool(const Scope& scope, int node) {
    if (node < 0 || at(scope, node).type == Type::Bool) return node;
    if (at(scope, node).type == Type::Float)
      return fail(at(scope, node).place, "a condition is expected here: compare the number with something");
    return add(scope, Op::ToBool, Type::Bool, at(scope, node).place, node);
  }
  int to_int(const Scope& scope, int node, std::string_view what) {
    if (node < 0) return node;
    if (at(scope, node).type == Type::Float)
      return fail(at(scope, node).place, fmt::format("{} is an integer; convert with i64(...)", what));
    return to_number(scope, node);
  }
  // Both to the wider of their types.
  Type unify(const Scope& scope, int& a, int& b) {
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

  // ---- variables -------------------------------------------------------------

  int new_variable(Scope& scope, const std::string& name, Place place) {
    if (contract_.dim(name) || contract_.scalar(name) || contract_.tensor(name) || names_.contains(name))
      return fail(place, fmt::format("'{}' cannot be an index: it already names something else", name));
    std::vector<Variable>& variables = definition(scope).variables;
    if (variables.size() >= kMostVariables) return fail(place, "too many indices in one statement");
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
  int find_variable(Scope& scope, const std::string& name) {
    if (const auto found = scope.names.find(name); found != scope.names.end()) return found->second;
    if (!scope.outer) return -1;
    const int outer = find_variable(*scope.outer, name);
    if (outer < 0) return -1;
    std::vector<Variable>& variables = definition(scope).variables;
    if (variables.size() >= kMostVariables)
      return fail(definition(scope).place, "too many indices in one statement");
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

  int index_node(Scope& scope, int variable, Place place) {
    Node node;
    node.op = Op::Index;
    node.place = place;
    node.ref = variable;
    node.indices = uint64_t{1} << variable;
    return add(scope, std::move(node));
  }

  void record_use(const Scope& scope, int variable, Use use) {
    int definition_id = scope.definition;
    while (true) {
      Variable& found = program_.definitions[static_cast<std::size_t>(definition_id)]
                            .variables[static_cast<std::size_t>(variable)];
      if (found.outer_definition < 0) {
        found.uses.push_back(std::move(use));
        return;
      }
      definition_id = found.outer_definition;
      variable = found.outer_variable;
    }
  }

  // ---- expressions -----------------------------------------------------------

  int expression(Scope& scope, const Expr& expr, Context context) {
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

  int unknown(const std::string& word, Place place, bool subscripted) {
    std::vector<std::string> known;
    if (!subscripted) {
      for (const Dim& dim : contract_.dims) known.push_back(dim.name);
      for (const ScalarSpec& scalar : contract_.scalars) known.push_back(scalar.name);
    }
    for (const auto& [known_name, source] : names_) known.push_back(known_name);
    const std::string near = nearest(word, known);
    if (!near.empty()) return fail(place, fmt::format("'{}' is not defined; did you mean '{}'?", word, near));
    if (subscripted) return fail(place, fmt::format("there is no tensor '{}'", word));
    return fail(place, fmt::format("'{}' is not defined: an index stands on the left, or is bound by a "
                                   "reduction such as sum[{}](...), or is summed over by '+='",
                                   word, word));
  }

  int name(Scope& scope, const Expr& expr) {
    for (std::size_t i = 0; i < contract_.dims.size(); ++i)
      if (contract_.dims[i].name == expr.name) return leaf(scope, Op::Dim, Type::Int, int(i), expr.place);
    for (std::size_t i = 0; i < contract_.scalars.size(); ++i)
      if (contract_.scalars[i].name == expr.name)
        return leaf(scope, Op::Scalar, type_of(contract_.scalars[i].dtype), int(i), expr.place);
    if (names_.contains(expr.name) || contract_.tensor(expr.name)) return element(scope, expr, {});
    int variable = find_variable(scope, expr.name);
    if (failed_) return -1;
    if (variable < 0) {
      Scope* root = &scope;
      while (root->outer) root = root->outer;
      if (!root->implicit) return unknown(expr.name, expr.place, false);
      if (new_variable(*root, expr.name, expr.place) < 0) return -1;
      variable = find_variable(scope, expr.name);
    }
    return variable < 0 ? -1 : index_node(scope, variable, expr.place);
  }

  int leaf(Scope& scope, Op op, Type type, int ref, Place place) {
    Node node;
    node.op = op;
    node.type = type;
    node.place = place;
    node.ref = ref;
    return add(scope, std::move(node));
  }

  static Type type_of(DType dtype) {
    const DTypeKind kind = info(dtype).kind;
    return kind == DTypeKind::Float ? Type::Float : kind == DTypeKind::Bool ? Type::Bool : Type::Int;
  }

  Type source_type(int source) const {
    const Source& from = program_.sources[static_cast<std::size_t>(source)];
    if (from.is_input) return type_of(contract_.tensors[static_cast<std::size_t>(from.tensor)].dtype);
    const Definition& defined = program_.definitions[static_cast<std::size_t>(from.definition)];
    return reduced_type(defined.reduce, defined.type());
  }

  std::size_t rank(int source) const {
    const Source& from = program_.sources[static_cast<std::size_t>(source)];
    if (from.is_input) return contract_.tensors[static_cast<std::size_t>(from.tensor)].shape.size();
    return program_.definitions[static_cast<std::size_t>(from.definition)].coordinates.size();
  }

  static bool is_single(const TensorSpec& spec) {
    return std::ranges::all_of(spec.shape,
                               [](const IntExpr& e) { return e.is_literal() && e.text() == "1"; });
  }
  bool is_single(int source) const {
    const Source& from = program_.sources[static_cast<std::size_t>(source)];
    const int tensor =
        from.is_input ? from.tensor : program_.definitions[static_cast<std::size_t>(from.definition)].output;
    return tensor >= 0 && is_single(contract_.tensors[static_cast<std::size_t>(tensor)]);
  }

  // A tensor's element, or a whole tensor of one element by its bare name.
  int element(Scope& scope, const Expr& expr, Context context) {
    const auto found = names_.find(expr.name);
    if (found == names_.end()) {
      if (contract_.tensor(expr.name))
        return fail(
            expr.place,
            fmt::format("the output '{}' has no value yet: it is assigned below, or not at all", expr.name));
      if (contract_.dim(expr.name) || contract_.scalar(expr.name))
        return fail(expr.place, fmt::format("'{}' is a number and takes no subscripts", expr.name));
      return unknown(expr.name, expr.place, true);
    }
    const int source = found->second;
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
        return fail(expr.place, fmt::format("'{}' has {} {}, not {}", expr.name, want,
                                            want == 1 ? "subscript" : "subscripts", expr.children.size()));
      for (std::size_t i = 0; i < want; ++i) node.subscripts.push_back(integer_node(scope, 0, expr.place));
    }
    for (std::size_t i = 0; i < expr.children.size(); ++i) {
      const int subscript = to_int(
          scope, expression(scope, *expr.children[i], {true, context.guarded, context.bound}), "a subscript");
      if (subscript < 0) return -1;
      node.subscripts.push_back(subscript);
      const Node& made = at(scope, subscript);
      if (made.op == Op::Index) {
        Use use;
        use.source = source;
        use.coordinate = static_cast<int>(i);
        use.guarded = context.guarded || context.bound;
        use.text = node.text;
        use.place = expr.place;
        record_use(scope, made.ref, std::move(use));
      }
    }
    const int load = add(scope, std::move(node));
    return stored_in_between(scope, source, load);
  }

  // An output that is read back may have been rounded to its dtype on the way.
  int stored_in_between(Scope& scope, int source, int load) {
    const Source& from = program_.sources[static_cast<std::size_t>(source)];
    if (from.is_input || at(scope, load).type != Type::Float) return load;
    const int output = program_.definitions[static_cast<std::size_t>(from.definition)].output;
    if (output < 0) return load;
    const DType dtype = contract_.tensors[static_cast<std::size_t>(output)].dtype;
    const int cast = add(scope, Op::CastFloat, Type::Float, at(scope, load).place, load);
    at(scope, cast).dtype = dtype;
    return cast;
  }

  int binary(Scope& scope, const Expr& expr, Context context) {
    const std::string& sign = expr.name;
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
      if (type == Type::Float) return fail(place, "'%' is for integers");
      return add(scope, Op::Mod, Type::Int, place, a, b);
    }
    if (sign == "/") {
      if (type == Type::Int && context.index) return add(scope, Op::FloorDiv, Type::Int, place, a, b);
      return add(scope, Op::Div, Type::Float, place, to_float(scope, a), to_float(scope, b));
    }
    // x * x is one error in both factors, not two independent ones.
    if (sign == "*" && type == Type::Float && to_text(*expr.children[0]) == to_text(*expr.children[1])) {
      const int square = add(scope, Op::Pow, Type::Float, place, a);
      at(scope, square).integer = 2;
      at(scope, square).literal_exponent = true;
      return square;
    }
    const Op op = sign == "+" ? Op::Add : sign == "-" ? Op::Sub : Op::Mul;
    return add(scope, op, type, place, a, b);
  }

  int power(Scope& scope, int base, int exponent, Place place) {
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

  int conditional(Scope& scope, const Expr& expr, Context context) {
    const int condition = to_bool(scope, expression(scope, *expr.children[0], context));
    int yes = expression(scope, *expr.children[1], {context.index, true});
    int no = expression(scope, *expr.children[2], {context.index, true});
    if (condition < 0 || yes < 0 || no < 0) return -1;
    const Type type = unify(scope, yes, no);
    return add(scope, Op::If, type, expr.place, condition, yes, no);
  }

  int arguments(Scope& scope, const Expr& expr, Context context, std::size_t least, std::size_t most,
                std::vector<int>& list) {
    if (expr.children.size() < least || expr.children.size() > most)
      return fail(expr.place, fmt::format("'{}' takes {} argument{}, not {}", expr.name,
                                          least == most ? std::to_string(least) : "two or more",
                                          most == 1 ? "" : "s", expr.children.size()));
    for (const ExprPtr& child : expr.children) {
      list.push_back(to_number(scope, expression(scope, *child, context)));
      if (failed_) return -1;
    }
    return 0;
  }

  int call(Scope& scope, const Expr& expr, Context context) {
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
      if (unify(scope, list[0], list[1]) == Type::Float) return fail(place, "'ceil_div' is for integers");
      return add(scope, Op::CeilDiv, Type::Int, place, list[0], list[1]);
    }
    if (const auto dtype = dtype_named(expr.name)) return cast(scope, expr, context, *dtype);
    if (arguments(scope, expr, context, 1, 1, list) < 0) return -1;
    const int operand = list[0];
    const Type type = at(scope, operand).type;
    if (expr.name == "abs") return add(scope, Op::Abs, type, place, operand);
    if (expr.name == "sign") return add(scope, Op::Sign, type, place, operand);
    if (expr.name == "isnan") return add(scope, Op::IsNan, Type::Bool, place, to_float(scope, operand));
    for (const FunctionRow& row : kRoundings)
      if (row.name == expr.name)
        return type == Type::Int ? operand : add(scope, row.op, Type::Float, place, operand);
    for (const FunctionRow& row : kFunctions)
      if (row.name == expr.name) return add(scope, row.op, Type::Float, place, to_float(scope, operand));
    return fail(place, fmt::format("'{}' is not a function", expr.name));
  }

  int cast(Scope& scope, const Expr& expr, Context context, DType dtype) {
    if (expr.children.size() != 1)
      return fail(expr.place, fmt::format("'{}' takes 1 argument, not {}", expr.name, expr.children.size()));
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
    return node;
  }

  // ---- reductions and statements -------------------------------------------------

  int new_definition(std::string defined, Place place) {
    Definition made;
    made.name = std::move(defined);
    made.place = place;
    program_.definitions.push_back(std::move(made));
    return static_cast<int>(program_.definitions.size()) - 1;
  }

  void bind_range(Scope& scope, int variable, const Expr& low, const Expr& high, Context context,
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
           fmt::format("the range of '{}', on the left, cannot depend on another index", made.name));
    if ((used >> variable & 1) != 0)
      fail(made.place, fmt::format("the range of '{}' depends on itself", made.name));
  }

  int reduction(Scope& outer, const Expr& expr, Context context) {
    Scope scope;
    scope.definition = new_definition(to_text(expr), expr.place);
    scope.outer = &outer;
    std::vector<int> reduced;
    for (const Binder& binder : expr.binders) {
      if (scope.names.contains(binder.name) || find_in_outer(outer, binder.name))
        return fail(binder.place,
                    fmt::format("the index '{}' is already in use here; take another name", binder.name));
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
    if ((made.reduce == Reduce::ArgMax || made.reduce == Reduce::ArgMin) && reduced.size() != 1)
      return fail(expr.place, fmt::format("'{}' takes one index", expr.name));
    if (made.reduce == Reduce::Mean) body = to_float(scope, body);
    definition(scope).reduced = std::move(reduced);
    definition(scope).filter = filter;
    definition(scope).body = body;
    const int twin = find_twin(outer, scope);
    if (twin >= 0) {
      program_.definitions.resize(static_cast<std::size_t>(scope.definition));
      scope.definition = twin;
    }
    return load_captured(outer, scope, expr);
  }

  // The same reduction of the same indices, written before in this definition:
  // one tensor, so that its error is one error.
  int find_twin(const Scope& outer, const Scope& scope) {
    const Definition& made = definition(scope);
    for (int id = outer.definition + 1; id < scope.definition; ++id) {
      const Definition& other = program_.definitions[static_cast<std::size_t>(id)];
      if (other.name != made.name || other.coordinates.size() != made.coordinates.size()) continue;
      bool same = true;
      for (std::size_t i = 0; i < made.coordinates.size() && same; ++i) {
        const Variable& a = made.variables[static_cast<std::size_t>(made.coordinates[i].variable)];
        const Variable& b = other.variables[static_cast<std::size_t>(other.coordinates[i].variable)];
        same = a.outer_definition == b.outer_definition && a.outer_variable == b.outer_variable;
      }
      // Without coordinates nothing tells where it stands; the same text is the same value.
      if (same) return id;
    }
    return -1;
  }

  static bool find_in_outer(const Scope& scope, const std::string& word) {
    for (const Scope* s = &scope; s; s = s->outer)
      if (s->names.contains(word)) return true;
    return false;
  }

  // The reduction's result as an element of its own tensor.
  int load_captured(Scope& outer, const Scope& scope, const Expr& expr) {
    Node node;
    node.op = Op::Load;
    node.place = expr.place;
    const Definition& made = definition(scope);
    node.type = reduced_type(made.reduce, made.type());
    node.text = made.name;
    node.guarded = true;  // verified where it is used, not here
    std::vector<int> captured;
    for (const Coordinate& coordinate : made.coordinates)
      captured.push_back(made.variables[static_cast<std::size_t>(coordinate.variable)].outer_variable);
    for (const int variable : captured) node.subscripts.push_back(index_node(outer, variable, expr.place));
    node.ref = add_source({false, -1, scope.definition});
    return add(outer, std::move(node));
  }

  void statement(const Statement& written) {
    const TensorSpec* spec = contract_.tensor(written.name);
    const int tensor = spec ? static_cast<int>(spec - contract_.tensors.data()) : -1;
    if (spec && !spec->is_output()) {
      fail(written.place,
           fmt::format("'{}' is an input; only outputs and new names can be assigned", written.name));
      return;
    }
    if (contract_.dim(written.name) || contract_.scalar(written.name)) {
      fail(written.place, fmt::format("'{}' is given by the caller and cannot be assigned", written.name));
      return;
    }
    Scope scope;
    scope.definition = new_definition(written.name, written.place);
    scope.implicit = written.kind != AssignKind::Set;
    definition(scope).output = tensor;
    const auto before = names_.find(written.name);
    const int previous = before == names_.end() ? -1 : before->second;
    left_side(scope, written, spec, tensor, previous);
    if (failed_) return;
    int body = expression(scope, *written.body, {});
    if (failed_) return;
    body = finish_body(scope, body, spec, written.kind);
    if (failed_) return;
    Definition& made = definition(scope);
    made.body = body;
    if (written.kind != AssignKind::Set) {
      made.reduce = written.kind == AssignKind::Sum   ? Reduce::Sum
                    : written.kind == AssignKind::Max ? Reduce::Max
                                                      : Reduce::Min;
      made.previous = previous;
      if (previous >= 0 && (source_type(previous) == Type::Float) != (made.type() == Type::Float)) {
        fail(written.place, fmt::format("'{}' was {} before", written.name,
                                        made.type() == Type::Float ? "integer" : "real"));
        return;
      }
    } else if (made.is_scatter()) {
      made.previous = previous;
    }
    reduce_the_rest(made);
    const int source = add_source({false, -1, scope.definition});
    names_[written.name] = source;
    if (tensor >= 0) program_.final_definition[static_cast<std::size_t>(tensor)] = scope.definition;
  }

  // Indices that are not plain on the left are loops of the statement.
  static void reduce_the_rest(Definition& made) {
    for (std::size_t v = 0; v < made.variables.size(); ++v) {
      const bool plain = std::ranges::any_of(
          made.coordinates, [&](const Coordinate& c) { return c.variable == static_cast<int>(v); });
      if (!plain) made.reduced.push_back(static_cast<int>(v));
    }
  }

  int finish_body(Scope& scope, int body, const TensorSpec* spec, AssignKind kind) {
    if (!spec) return kind == AssignKind::Set ? body : to_number(scope, body);
    const DTypeKind want = info(spec->dtype).kind;
    if (want == DTypeKind::Float) return to_float(scope, to_number(scope, body));
    if (want == DTypeKind::Bool && at(scope, body).type == Type::Float)
      return fail(at(scope, body).place, fmt::format("'{}' is bool: write a condition", spec->name));
    if (want == DTypeKind::Bool && kind == AssignKind::Set) return to_bool(scope, body);
    body = to_number(scope, body);
    if (at(scope, body).type != Type::Float) return body;
    const int store = add(scope, Op::StoreInt, Type::Int, at(scope, body).place, body);
    at(scope, store).dtype = spec->dtype;
    return store;
  }

  void left_side(Scope& scope, const Statement& written, const TensorSpec* spec, int tensor, int previous) {
    const std::size_t have = written.left.size();
    if (have > kMostDimensions) {
      fail(written.place, fmt::format("'{}' has more than {} dimensions", written.name, kMostDimensions));
      return;
    }
    if (spec && have != spec->shape.size() && !(have == 0 && is_single(*spec))) {
      fail(written.place, fmt::format("'{}' has {} {}, not {}", written.name, spec->shape.size(),
                                      spec->shape.size() == 1 ? "subscript" : "subscripts", have));
      return;
    }
    if (spec && have == 0)
      for (std::size_t i = 0; i < spec->shape.size(); ++i) {
        const int zero = integer_node(scope, 0, written.place);
        definition(scope).coordinates.push_back({-1, zero, "0"});
      }
    const bool keeps = previous >= 0 && !spec && written.kind != AssignKind::Set;
    if (keeps && have != rank(previous)) {
      fail(written.place, fmt::format("'{}' has {} subscripts, not {}", written.name, rank(previous), have));
      return;
    }
    // Plain indices first, so that computed places may use those that come later.
    std::vector<int> plain(have, -1);
    for (std::size_t i = 0; i < have && !failed_; ++i) {
      const Expr& expr = *written.left[i].expr;
      const bool is_index = expr.kind == ExprKind::Name && !contract_.dim(expr.name) &&
                            !contract_.scalar(expr.name) && !contract_.tensor(expr.name) &&
                            !names_.contains(expr.name) && !scope.names.contains(expr.name);
      if (is_index) plain[i] = new_variable(scope, expr.name, expr.place);
    }
    for (std::size_t i = 0; i < have && !failed_; ++i)
      place(scope, written, i, plain[i], tensor, keeps ? previous : -1);
    if (failed_ || !definition(scope).is_scatter() || spec) return;
    if (previous < 0)
      fail(written.place,
           fmt::format("the extents of '{}' are not known; define it first, as in `{}[i in 0..n] = 0`",
                       written.name, written.name));
    definition(scope).shape_source = previous;
  }

  void place(Scope& scope, const Statement& written, std::size_t i, int variable, int tensor, int previous) {
    const Left& left = written.left[i];
    if (variable < 0) {
      // Names that nothing else binds are loops of the statement, as in dw[tokens[t], d].
      const bool implicit = scope.implicit;
      scope.implicit = true;
      const int node = to_int(scope, expression(scope, *left.expr, {true, false}), "a place on the left");
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

  const Contract& contract_;
  Program program_;
  std::map<std::string, int, std::less<>> names_;  // the latest source of every name
  bool failed_ = false;
  Error error_;
};

// Shapes that tell dims apart, and the edges of the promise.
std::vector<Shape> telling_shapes(const Contract& contract) {
  std::vector<Shape> shapes(3);
  int64_t step = 2;
  for (const Dim& dim : contract.dims) {
    const int64_t low = dim.lowest(), high = dim.highest();
    const auto clamp = [&](int64_t multiples) {
      return multiples > (high - low) / dim.multiple_of ? high : low + multiples * dim.multiple_of;
    };
    shapes[0][dim.name] = clamp(step * step + step);
    shapes[1][dim.name] = clamp(37 * step + 11);
    shapes[2][dim.name] = low;
    ++step;
  }
  shapes.insert(shapes.end(), contract.shapes.begin(), contract.shapes.end());
  return shapes;
}

}  // namespace

Type reduced_type(Reduce reduce, Type body) {
  if (reduce == Reduce::Mean) return Type::Float;
  if (reduce == Reduce::ArgMax || reduce == Reduce::ArgMin) return Type::Int;
  return body;
}

std::string_view to_string(Reduce reduce) {
  constexpr std::string_view kNames[] = {"", "sum", "mean", "max", "min", "argmax", "argmin"};
  return kNames[static_cast<std::size_t>(reduce)];
}

Result<std::shared_ptr<const Program>> compile(const Contract& contract) {
  Result<std::shared_ptr<const Program>> program = Compiler(contract).run();
  if (!program) return program;
  for (const Shape& shape : telling_shapes(contract)) {
    Result<Plan> plan = make_plan(contract, **program, shape);
    if (!plan) return plan.error();
  }
  return program;
}

}  // namespace assay::contract
