#include "contract/int_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "contract/lexer.h"

namespace assay::contract {

struct IntExpr::Node {
  enum class Op : uint8_t { Literal, Dim, Add, Sub, Mul, Div, Mod, Min, Max, CeilDiv };
  Op op = Op::Literal;
  int64_t value = 0;
  std::string name;
  std::shared_ptr<const Node> left, right;
};

namespace {

using Node = IntExpr::Node;
using NodePtr = std::shared_ptr<const Node>;
using Op = Node::Op;
constexpr int kMostLinks = 2000;

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

NodePtr make(Op op, NodePtr left, NodePtr right) {
  return std::make_shared<const Node>(Node{op, 0, "", std::move(left), std::move(right)});
}

class IntParser {
 public:
  IntParser(std::vector<Token> tokens, const IntExpr::Named& named,
            const std::function<NodePtr(const IntExpr&)>& root_of)
      : tokens_(std::move(tokens)), named_(named), root_of_(root_of) {}

  Result<NodePtr> run() {
    NodePtr node = sum(0);
    if (!error_.message.empty()) return error_;
    if (node && peek().kind != TokenKind::End)
      node = fail(fmt::format("expected an operator, found {}", seen()));
    if (!node) return error_;
    return node;
  }

 private:
  const Token& peek() const { return tokens_[at_]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }

  NodePtr fail(std::string message) { return fail(std::move(message), peek()); }
  NodePtr fail(std::string message, const Token& token) {
    if (error_.message.empty()) error_ = {std::move(message), "", 1, static_cast<int>(token.offset) + 1};
    return nullptr;
  }

  std::string seen() const {
    return peek().kind == TokenKind::End ? "the end of the expression" : fmt::format("`{}`", peek().text);
  }

  // Operators in a row make a deep tree.
  bool links() {
    if (++links_ > kMostLinks) fail("this expression is too long");
    return links_ <= kMostLinks;
  }

  NodePtr sum(int depth) {
    NodePtr left = product(depth);
    while (left && links() && (peek().is("+") || peek().is("-"))) {
      const Op op = take().is("+") ? Op::Add : Op::Sub;
      NodePtr right = product(depth);
      left = right ? make(op, left, right) : nullptr;
    }
    return left;
  }

  NodePtr product(int depth) {
    NodePtr left = factor(depth);
    while (left && links() && (peek().is("*") || peek().is("/") || peek().is("//") || peek().is("%"))) {
      const Token& sign = take();
      const Op op = sign.is("*") ? Op::Mul : sign.is("%") ? Op::Mod : Op::Div;
      NodePtr right = factor(depth);
      left = right ? make(op, left, right) : nullptr;
    }
    return left;
  }

  NodePtr factor(int depth) {
    if (depth > kDeepest) return fail("this expression is nested too deeply");
    const Token& token = peek();
    if (token.is("-")) {
      take();
      NodePtr operand = factor(depth + 1);
      return operand ? make(Op::Sub, std::make_shared<const Node>(), operand) : nullptr;
    }
    if (token.is("(")) {
      take();
      NodePtr inner = sum(depth + 1);
      return inner && expect(")") ? inner : nullptr;
    }
    if (token.kind == TokenKind::Integer)
      return std::make_shared<const Node>(Node{Op::Literal, take().integer, "", nullptr, nullptr});
    if (token.kind == TokenKind::Name) {
      take();
      if (peek().is("(")) return call(token, depth);
      if (const auto found = named_.find(token.text); found != named_.end()) return root_of_(found->second);
      return std::make_shared<const Node>(Node{Op::Dim, 0, std::string(token.text), nullptr, nullptr});
    }
    if (token.kind == TokenKind::Real) return fail("expected an integer, found a decimal number");
    return fail(fmt::format("expected an integer, a dim or `(`, found {}", seen()));
  }

  NodePtr call(const Token& function, int depth) {
    const std::string_view name = function.text;
    Op op;
    if (name == "ceil_div")
      op = Op::CeilDiv;
    else if (name == "min")
      op = Op::Min;
    else if (name == "max")
      op = Op::Max;
    else
      return fail(fmt::format("`{}` is not a function here; ceil_div, min and max are", name), function);
    take();
    NodePtr left = sum(depth + 1);
    if (!left || !expect(",")) return nullptr;
    NodePtr right = sum(depth + 1);
    NodePtr node = right ? make(op, left, right) : nullptr;
    while (node && op != Op::CeilDiv && peek().is(",")) {
      take();
      NodePtr next = sum(depth + 1);
      node = next ? make(op, node, next) : nullptr;
    }
    return node && expect(")") ? node : nullptr;
  }

  bool expect(std::string_view sign) {
    if (!peek().is(sign)) {
      fail(fmt::format("expected `{}`, found {}", sign, seen()));
      return false;
    }
    take();
    return true;
  }

  std::vector<Token> tokens_;
  const IntExpr::Named& named_;
  const std::function<NodePtr(const IntExpr&)>& root_of_;
  std::size_t at_ = 0;
  int links_ = 0;
  Error error_;
};

Result<int64_t> eval_node(const Node& node, const Shape& shape) {
  if (node.op == Op::Literal) return node.value;
  if (node.op == Op::Dim) {
    const auto found = shape.find(node.name);
    if (found == shape.end()) return Error{fmt::format("the dim `{}` has no value", node.name)};
    return found->second;
  }
  Result<int64_t> left = eval_node(*node.left, shape);
  if (!left) return left;
  Result<int64_t> right = eval_node(*node.right, shape);
  if (!right) return right;
  const int64_t a = *left, b = *right;
  int64_t value = 0;
  bool overflow = false;
  switch (node.op) {
    case Op::Add:
      overflow = __builtin_add_overflow(a, b, &value);
      break;
    case Op::Sub:
      overflow = __builtin_sub_overflow(a, b, &value);
      break;
    case Op::Mul:
      overflow = __builtin_mul_overflow(a, b, &value);
      break;
    case Op::Min:
      value = std::min(a, b);
      break;
    case Op::Max:
      value = std::max(a, b);
      break;
    default:
      if (b == 0) return Error{"division by zero"};
      if (b == -1) {  // the smallest integer has no negative
        overflow = node.op != Op::Mod && __builtin_sub_overflow(int64_t{0}, a, &value);
        break;
      }
      if (node.op == Op::Div) value = floor_div(a, b);
      if (node.op == Op::Mod) value = a - b * floor_div(a, b);
      if (node.op == Op::CeilDiv) value = floor_div(a, b) + (a % b != 0);
      break;
  }
  if (overflow) return Error{"the result is beyond 64 bits"};
  return value;
}

// The text with every name that stands for an expression replaced by that.
std::string replaced(std::string_view text, const std::vector<Token>& tokens, const IntExpr::Named& named) {
  std::string result;
  std::size_t from = 0;
  for (const Token& token : tokens) {
    const auto found = token.kind == TokenKind::Name ? named.find(token.text) : named.end();
    if (found == named.end()) continue;
    const std::string& meaning = found->second.text();
    const bool one_word = meaning.find_first_of(" +-*/%,") == std::string::npos;
    result += text.substr(from, token.offset - from);
    result += one_word ? meaning : fmt::format("({})", meaning);
    from = token.offset + token.text.size();
  }
  return result.append(text.substr(from));
}

void collect_dims(const Node& node, std::set<std::string>& names) {
  if (node.op == Op::Dim) names.insert(node.name);
  if (node.left) collect_dims(*node.left, names);
  if (node.right) collect_dims(*node.right, names);
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string text;
  for (const auto& [name, value] : shape)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

IntExpr IntExpr::literal(int64_t value) {
  IntExpr expr;
  expr.root_ = std::make_shared<const Node>(Node{Op::Literal, value, "", nullptr, nullptr});
  expr.text_ = std::to_string(value);
  return expr;
}

IntExpr IntExpr::dim(std::string name) {
  IntExpr expr;
  expr.text_ = name;
  expr.root_ = std::make_shared<const Node>(Node{Op::Dim, 0, std::move(name), nullptr, nullptr});
  return expr;
}

Result<IntExpr> IntExpr::parse(std::string_view text) {
  return parse(text, {});
}

Result<IntExpr> IntExpr::parse(std::string_view text, const Named& named) {
  Result<std::vector<Token>> tokens = tokenize(text);
  if (!tokens) return tokens.error();
  std::erase_if(*tokens, [](const Token& token) { return token.kind == TokenKind::Newline; });
  IntExpr expr;
  expr.text_ = replaced(text, *tokens, named);
  if (expr.text_ != text) expr.written_ = text;
  const std::function<NodePtr(const IntExpr&)> root_of = [](const IntExpr& one) {
    return one.root_ ? one.root_ : std::make_shared<const Node>();
  };
  Result<NodePtr> root = IntParser(std::move(*tokens), named, root_of).run();
  if (!root) return root.error();
  expr.root_ = *root;
  return expr;
}

Result<std::vector<DimRelation>> DimRelation::parse(std::string_view text, const IntExpr::Named& named) {
  constexpr std::array<std::string_view, 6> kSigns = {"<", "<=", ">", ">=", "==", "!="};
  const Result<std::vector<Token>> tokens = tokenize(text);
  if (!tokens) return tokens.error();
  std::vector<DimRelation> relations;
  std::vector<IntExpr> sides;
  std::size_t from = 0;
  for (const Token& token : *tokens) {
    const auto sign = token.kind == TokenKind::Sign ? std::ranges::find(kSigns, token.text) : kSigns.end();
    if (token.is("=")) {
      const char next = token.offset + 1 < text.size() ? text[token.offset + 1] : '\0';
      const bool turned = next == '<' || next == '>';
      return Error{turned ? fmt::format("write `{0}=` instead of `={0}`", next) : "write `==` to compare", "",
                   1, static_cast<int>(token.offset) + 1};
    }
    if (sign == kSigns.end() && token.kind != TokenKind::End) continue;
    Result<IntExpr> side = IntExpr::parse(text.substr(from, token.offset - from), named);
    if (!side) {
      Error error = side.error();
      error.column += static_cast<int>(from);
      return error;
    }
    sides.push_back(std::move(*side));
    if (!relations.empty()) relations.back().right = sides.back();
    if (token.kind == TokenKind::End) break;
    relations.push_back({sides.back(), {}, static_cast<Sign>(sign - kSigns.begin()), std::string(text)});
    from = token.offset + token.text.size();
  }
  if (relations.empty())
    return Error{"expected a comparison such as `K <= N`", "", 1, static_cast<int>(text.size()) + 1};
  return relations;
}

bool DimRelation::holds(const Shape& shape) const {
  const Result<int64_t> a = left.eval(shape), b = right.eval(shape);
  if (!a || !b) return false;
  switch (sign) {
    case Sign::Less:
      return *a < *b;
    case Sign::LessEqual:
      return *a <= *b;
    case Sign::Greater:
      return *a > *b;
    case Sign::GreaterEqual:
      return *a >= *b;
    case Sign::Equal:
      return *a == *b;
    default:
      return *a != *b;
  }
}

std::vector<std::string> DimRelation::dims() const {
  std::set<std::string> names;
  for (const IntExpr* side : {&left, &right})
    for (const std::string& name : side->dims()) names.insert(name);
  return {names.begin(), names.end()};
}

Result<int64_t> IntExpr::eval(const Shape& shape) const {
  if (!root_) return int64_t{0};
  Result<int64_t> value = eval_node(*root_, shape);
  if (!value) return Error{fmt::format("in `{}`: {}", written(), value.error().message)};
  return value;
}

std::vector<std::string> IntExpr::dims() const {
  std::set<std::string> names;
  if (root_) collect_dims(*root_, names);
  return {names.begin(), names.end()};
}

bool IntExpr::is_literal() const {
  return !root_ || root_->op == Op::Literal;
}

}  // namespace assay::contract
