#include "prove/expr.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/lexer.h"
#include "prove/poly.h"

namespace assay::prove {

using EOp = Expr::Op;

namespace {

constexpr int64_t kLargest = int64_t{1} << 62;

class Parser {
 public:
  explicit Parser(std::vector<contract::Token> tokens) : tokens_(std::move(tokens)) {}
  ExprPtr run() {
    ExprPtr expr = sum();
    return expr && peek().kind == contract::TokenKind::End ? expr : nullptr;
  }

 private:
  const contract::Token& peek() const { return tokens_[at_]; }
  bool take(std::string_view text) {
    if (!peek().is(text) && !peek().is_word(text)) return false;
    ++at_;
    return true;
  }
  ExprPtr joined(EOp op, const ExprPtr& a, const ExprPtr& b) {
    return a && b ? Expr::make(op, a, b) : nullptr;
  }
  ExprPtr sum() {
    ExprPtr left = product();
    while (left && (peek().is("+") || peek().is("-"))) {
      const EOp op = take("+") ? EOp::Add : (take("-"), EOp::Sub);
      left = joined(op, left, product());
    }
    return left;
  }
  ExprPtr product() {
    ExprPtr left = factor();
    while (left) {
      EOp op;
      if (take("*"))
        op = EOp::Mul;
      else if (take("/") || take("//"))
        op = EOp::Div;
      else if (take("%"))
        op = EOp::Mod;
      else
        break;
      left = joined(op, left, factor());
    }
    return left;
  }
  ExprPtr call(EOp op) {
    ExprPtr a = take("(") ? sum() : nullptr;
    if (!a) return nullptr;
    while (take(",")) a = joined(op, a, sum());
    return a && take(")") ? a : nullptr;
  }
  ExprPtr factor() {
    if (take("(")) {
      ExprPtr inner = sum();
      return inner && take(")") ? inner : nullptr;
    }
    if (take("-")) return joined(EOp::Sub, Expr::literal(0), factor());
    if (take("ceil_div")) return call(EOp::CeilDiv);
    if (take("min")) return call(EOp::Min);
    if (take("max")) return call(EOp::Max);
    const contract::Token token = peek();
    if (token.kind == contract::TokenKind::End) return nullptr;
    ++at_;
    if (token.kind == contract::TokenKind::Name) return Expr::dim(std::string(token.text));
    return token.kind == contract::TokenKind::Integer ? Expr::literal(token.integer) : nullptr;
  }

  std::vector<contract::Token> tokens_;
  size_t at_ = 0;
};

int precedence(EOp op) {
  return op == EOp::Add || op == EOp::Sub ? 1 : op == EOp::Mul || op == EOp::Div || op == EOp::Mod ? 2 : 3;
}

}  // namespace

ExprPtr Expr::literal(int64_t value) {
  return std::make_shared<const Expr>(Expr{Op::Literal, value, "", nullptr, nullptr});
}
ExprPtr Expr::dim(std::string name) {
  return std::make_shared<const Expr>(Expr{Op::Dim, 0, std::move(name), nullptr, nullptr});
}
ExprPtr Expr::make(Op op, ExprPtr a, ExprPtr b) {
  return std::make_shared<const Expr>(Expr{op, 0, "", std::move(a), std::move(b)});
}

Result<ExprPtr> parse_expr(std::string_view text) {
  auto tokens = contract::tokenize(text);
  if (!tokens) return tokens.error();
  ExprPtr expr = Parser(std::move(*tokens)).run();
  if (!expr) return Error{fmt::format("`{}` is not an integer expression", text)};
  return expr;
}

std::string text(const Expr& expr) {
  switch (expr.op) {
    case EOp::Literal:
      return fmt::format("{}", expr.value);
    case EOp::Dim:
      return expr.name;
    case EOp::Min:
      return fmt::format("min({}, {})", text(*expr.a), text(*expr.b));
    case EOp::Max:
      return fmt::format("max({}, {})", text(*expr.a), text(*expr.b));
    case EOp::CeilDiv:
      return fmt::format("ceil_div({}, {})", text(*expr.a), text(*expr.b));
    default:
      break;
  }
  const int own = precedence(expr.op);
  const auto side = [&](const Expr& part, bool right) {
    const int level = precedence(part.op);
    return level < own || (right && level == own) ? fmt::format("({})", text(part)) : text(part);
  };
  const char* sign = expr.op == EOp::Add   ? "+"
                     : expr.op == EOp::Sub ? "-"
                     : expr.op == EOp::Mul ? "*"
                     : expr.op == EOp::Div ? "/"
                                           : "%";
  return fmt::format("{} {} {}", side(*expr.a, false), sign, side(*expr.b, true));
}

std::optional<int64_t> evaluate(const Expr& expr, const contract::Shape& shape) {
  if (expr.op == EOp::Literal) return expr.value;
  if (expr.op == EOp::Dim) {
    const auto found = shape.find(expr.name);
    return found == shape.end() ? std::nullopt : std::optional(found->second);
  }
  const auto a = evaluate(*expr.a, shape), b = evaluate(*expr.b, shape);
  if (!a || !b) return std::nullopt;
  Int value = 0;
  switch (expr.op) {
    case EOp::Add:
      value = Int{*a} + *b;
      break;
    case EOp::Sub:
      value = Int{*a} - *b;
      break;
    case EOp::Mul:
      value = Int{*a} * *b;
      break;
    case EOp::Min:
      return std::min(*a, *b);
    case EOp::Max:
      return std::max(*a, *b);
    default:
      if (*b <= 0) return std::nullopt;
      value = expr.op == EOp::Mod   ? Int{*a} - Int{floor_div(*a, *b)} * *b
              : expr.op == EOp::Div ? floor_div(*a, *b)
                                    : -Int{floor_div(-*a, *b)};
  }
  if (value > kLargest || value < -kLargest) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<Interval> interval(const Expr& expr, const contract::Contract& contract) {
  if (expr.op == EOp::Literal) return Interval{expr.value, expr.value};
  if (expr.op == EOp::Dim) {
    const contract::Dim* dim = contract.dim(expr.name);
    if (!dim) return std::nullopt;
    return Interval{dim->lowest(), dim->highest()};
  }
  const auto a = interval(*expr.a, contract), b = interval(*expr.b, contract);
  if (!a || !b) return std::nullopt;
  Interval all;
  switch (expr.op) {
    case EOp::Add:
      all = {a->low + b->low, a->high + b->high};
      break;
    case EOp::Sub:
      all = {a->low - b->high, a->high - b->low};
      break;
    case EOp::Mul: {
      const Int corners[] = {a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high};
      all = {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
      break;
    }
    case EOp::Min:
      all = {std::min(a->low, b->low), std::min(a->high, b->high)};
      break;
    case EOp::Max:
      all = {std::max(a->low, b->low), std::max(a->high, b->high)};
      break;
    default:
      if (a->low < 0 || b->low < 1) return std::nullopt;
      if (expr.op == EOp::Mod) all = {0, std::min(a->high, b->high - 1)};
      if (expr.op == EOp::Div) all = {floor_div(a->low, b->high), floor_div(a->high, b->low)};
      if (expr.op == EOp::CeilDiv) all = {-floor_div(-a->low, b->high), -floor_div(-a->high, b->low)};
  }
  if (all.high > kLargest || all.low < -kLargest) return std::nullopt;
  return all;
}

namespace {

// Listed shapes that questions speak of one by one; of more, the ranges of the dims are all that is known. Chosen: beyond, the
// solver gets slow.
constexpr size_t kMostListed = 32;

// Of only the shapes that are listed, no dim is beyond all of them.
std::vector<DimLimit> limits_of_list(const contract::Contract& contract) {
  std::vector<DimLimit> limits;
  if (!contract.only_listed_shapes || contract.shapes.empty()) return limits;
  for (const contract::Dim& dim : contract.dims) {
    const auto [least, most] = std::minmax_element(
        contract.shapes.begin(), contract.shapes.end(),
        [&](const contract::Shape& a, const contract::Shape& b) { return a.at(dim.name) < b.at(dim.name); });
    limits.push_back({dim.name, least->at(dim.name), false});
    limits.push_back({dim.name, most->at(dim.name), true});
  }
  return limits;
}

// Where no value is left, nothing is limited: that of no shape anything holds is not for the terms to say.
contract::Contract limited(contract::Contract contract, std::vector<DimLimit> limits) {
  const std::vector<DimLimit> listed = limits_of_list(contract);
  limits.insert(limits.begin(), listed.begin(), listed.end());
  for (const DimLimit& limit : limits)
    for (contract::Dim& dim : contract.dims) {
      if (dim.name != limit.dim) continue;
      contract::Dim narrower = dim;
      if (limit.is_most)
        narrower.max = std::min(narrower.max, limit.value);
      else
        narrower.min = std::max(narrower.min, limit.value);
      if (narrower.min <= narrower.max && narrower.lowest() <= narrower.highest()) dim = narrower;
    }
  return contract;
}

}  // namespace

Dims::Dims(Terms& terms, const contract::Contract& contract, const std::vector<DimLimit>& limits)
    : terms_(terms), contract_(limited(contract, limits)) {
  for (const contract::Dim& dim : contract_.dims) {
    if (dim.lowest() == dim.highest()) {
      dims_[dim.name] = terms.constant(static_cast<Bits>(Int{dim.lowest()}), 64);
      continue;
    }
    Variable variable{dim.multiple_of == 1 ? dim.name : fmt::format("{}/{}", dim.name, dim.multiple_of),
                      VarKind::Dim};
    variable.width = 64;
    variable.is_signed = true;
    variable.low = dim.lowest() / dim.multiple_of;
    variable.high = dim.highest() / dim.multiple_of;
    const Term term = terms.variable(std::move(variable));
    variables_[dim.name] = {terms.mentions(term).front(), dim.multiple_of};
    dims_[dim.name] = terms.mul(term, terms.constant(static_cast<Bits>(dim.multiple_of), 64));
  }
  for (const contract::DimRelation& relation : contract_.relations) add_fact(relation);
  if (contract_.only_listed_shapes) add_list();
}

// The dims are those of one of the listed shapes.
void Dims::add_list() {
  Term any = terms_.truth(false);
  size_t count = 0;
  for (const contract::Shape& shape : contract_.shapes) {
    Term all = terms_.truth(true);
    bool within = true;
    for (const contract::Dim& dim : contract_.dims) {
      const int64_t value = shape.at(dim.name);
      within &= dim.contains(value);
      all = terms_.both(
          all, terms_.compare(Op::Eq, term(dim.name), terms_.constant(static_cast<Bits>(Int{value}), 64)));
    }
    if (!within) continue;
    any = terms_.either(any, all);
    ++count;
  }
  if (count == 0 || count > kMostListed) return;
  for (const Var var : std::vector<Var>(terms_.mentions(any))) terms_.var(var).facts.push_back(any);
}

// What every legal shape fulfils is a fact about each dim that it speaks of.
void Dims::add_fact(const contract::DimRelation& relation) {
  const auto left = parse_expr(relation.left.text()), right = parse_expr(relation.right.text());
  if (!left || !right) return;
  const auto a = term(**left), b = term(**right);
  if (!a || !b) return;
  using Sign = contract::DimRelation::Sign;
  const bool swapped = relation.sign == Sign::Greater || relation.sign == Sign::GreaterEqual;
  const bool strict = relation.sign == Sign::Less || relation.sign == Sign::Greater;
  Term fact = terms_.compare(Op::Eq, *a, *b);
  if (relation.sign == Sign::NotEqual)
    fact = terms_.negation(fact);
  else if (relation.sign != Sign::Equal)
    fact = terms_.compare(strict ? Op::Slt : Op::Sle, swapped ? *b : *a, swapped ? *a : *b);
  for (const Var var : std::vector<Var>(terms_.mentions(fact))) terms_.var(var).facts.push_back(fact);
}

Term Dims::term(std::string_view name) const {
  const auto found = dims_.find(name);
  return found == dims_.end() ? kNoTerm : found->second;
}

std::optional<Term> Dims::term(const Expr& expr) {
  if (!interval(expr, contract_)) return std::nullopt;
  return build(expr);
}

Term Dims::build(const Expr& expr) {
  if (expr.op == EOp::Literal) return terms_.constant(static_cast<Bits>(Int{expr.value}), 64);
  if (expr.op == EOp::Dim) return term(std::string_view(expr.name));
  const Term a = build(*expr.a), b = build(*expr.b);
  switch (expr.op) {
    case EOp::Add:
      return terms_.add(a, b);
    case EOp::Sub:
      return terms_.sub(a, b);
    case EOp::Mul:
      return terms_.mul(a, b);
    case EOp::Div:
      return terms_.bitwise(Op::UDiv, a, b);
    case EOp::Mod:
      return terms_.bitwise(Op::URem, a, b);
    case EOp::CeilDiv:
      return terms_.bitwise(Op::UDiv, terms_.add(a, terms_.sub(b, terms_.constant(1, 64))), b);
    case EOp::Min:
      return terms_.ite(terms_.compare(Op::Sle, a, b), a, b);
    default:
      return terms_.ite(terms_.compare(Op::Sle, a, b), b, a);
  }
}

contract::Shape Dims::shape(const std::map<Var, Int>& values) const {
  contract::Shape shape;
  for (const contract::Dim& dim : contract_.dims) {
    const auto variable = variables_.find(dim.name);
    int64_t value = dim.lowest();
    if (variable != variables_.end())
      if (const auto known = values.find(variable->second.first); known != values.end())
        value = static_cast<int64_t>(known->second) * variable->second.second;
    shape[dim.name] = value;
  }
  return shape;
}

}  // namespace assay::prove
