#include "contract/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "contract/lexer.h"

namespace assay::contract {
namespace {

constexpr int kLongestChain = 500;  // operands of one chain of operators
constexpr int kLongestMiddle = 24;  // tokens of b in a < b < c, which is read twice
constexpr std::array<std::string_view, 6> kReductions = {"sum", "mean", "max", "min", "argmax", "argmin"};
constexpr std::array<std::string_view, 11> kWords = {"if", "then", "else", "and",  "or",   "not",
                                                     "in", "inf",  "nan",  "true", "false"};
constexpr std::array<std::string_view, 6> kComparisons = {"<", "<=", ">", ">=", "==", "!="};

// Functions that reserve no name: only a '(' makes them one. Names of dtypes that came later are others.
constexpr std::array<std::string_view, 13> kAlsoCallable = {
    "silu",        "relu",   "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left",
    "shift_right", "random", "re",      "im",     "conj",    "complex"};
bool is_also_callable(std::string_view word) {
  return std::ranges::find(kAlsoCallable, word) != kAlsoCallable.end() || dtype_named(word).has_value() ||
         stochastic_rounding(word).has_value();
}

// Reductions that reserve no name: only brackets and a body make them one.
constexpr std::array<std::string_view, 8> kChoices = {"argmax_any", "argmin_any", "prod",    "sample",
                                                      "topk",       "topk_first", "argsort", "argsort_first"};
// Running reductions: of the elements up to and including the one at the index.
constexpr std::pair<std::string_view, std::string_view> kScans[] = {
    {"cumsum", "sum"}, {"cumprod", "prod"}, {"cummax", "max"}, {"cummin", "min"}};
bool is_later_reduction(std::string_view word) {
  return std::ranges::find(kChoices, word) != kChoices.end() ||
         std::ranges::any_of(kScans, [&](const auto& scan) { return scan.first == word; });
}

constexpr std::pair<std::string_view, std::string_view> kBitSigns[] = {
    {"&", "bit_and(a, b)"}, {"<<", "shift_left(a, n)"}, {">>", "shift_right(a, n)"}};

// What people write that is not in the language, and what is.
constexpr std::pair<std::string_view, std::string_view> kInstead[] = {
    {"gelu", "0.5 * x * (1 + erf(x / sqrt(2))), or the formula with tanh: they differ"},
    {"softmax", "exp(x[i, j] - m[i]) / sum[k](exp(x[i, k] - m[i])) with m[i] = max[k](x[i, k])"},
    {"where", "`if c then a else b`"},
    {"select", "`if c then a else b`"},
    {"clamp", "min(max(x, low), high)"},
    {"clip", "min(max(x, low), high)"},
    {"sort", "y[j] = x[order[j]] with an output order[j] = argsort[k](x[k])"},
    {"dropout", "if random(1 - p) then x[i] / (1 - p) else 0"},
    {"rand", "random(p), which is true with probability p"},
    {"bernoulli", "random(p), which is true with probability p"},
    {"stochastic_round", "sr_bf16(e, seed), or another type than bf16"},
    {"stochastic_rounding", "sr_bf16(e, seed), or another type than bf16"},
    {"multinomial", "sample[k](weight), an index drawn by weight"},
    {"ln", "log(e)"},
    {"real", "re(z)"},
    {"imag", "im(z)"},
    {"conjugate", "conj(z)"},
    {"cis", "complex(cos(t), sin(t))"},
    {"polar", "complex(r * cos(t), r * sin(t))"},
    {"tan", "sin(e) / cos(e)"},
    {"square", "e^2"},
    {"reciprocal", "1 / e"},
    {"has", "present(t) of an optional tensor"},
    {"defined", "present(t) of an optional tensor"},
    {"mod", "a % b"},
    {"float", "f32(e)"},
    {"int", "i32(e)"},
    {"half", "f16(e)"},
    {"bfloat16", "bf16(e)"},
};

bool continues_after(const Token& token) {
  static constexpr std::array<std::string_view, 24> kSigns = {"+", "-",  "*",  "/",  "%",  "^",  "=",  "+=",
                                                              "<", "<=", ">",  ">=", "==", "!=", ",",  "|",
                                                              "(", "[",  "..", "//", "&&", "||", "**", "!"};
  static constexpr std::array<std::string_view, 6> kOpen = {"if", "then", "else", "and", "or", "not"};
  if (token.kind == TokenKind::Sign) return std::ranges::find(kSigns, token.text) != kSigns.end();
  return token.kind == TokenKind::Name && std::ranges::find(kOpen, token.text) != kOpen.end();
}

bool continues_before(const Token& token) {
  if (token.kind == TokenKind::Sign) return token.text != ";" && token.text != "(" && token.text != "[";
  return token.is_word("then") || token.is_word("else") || token.is_word("and") || token.is_word("or");
}

// Line breaks that do not end a statement are taken out; `;` becomes one that does.
std::vector<Token> join_lines(const std::vector<Token>& tokens) {
  std::vector<Token> joined;
  int depth = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Token token = tokens[i];
    if (token.is("(") || token.is("[")) ++depth;
    if (token.is(")") || token.is("]")) depth = std::max(0, depth - 1);
    if (token.is(";")) token.kind = TokenKind::Newline;
    if (token.kind == TokenKind::Newline) {
      std::size_t next = i + 1;
      while (tokens[next].kind == TokenKind::Newline) ++next;
      if (depth > 0 || joined.empty() || joined.back().kind == TokenKind::Newline ||
          continues_after(joined.back()) || continues_before(tokens[next]))
        continue;
    }
    joined.push_back(token);
  }
  return joined;
}

class FormulaParser {
 public:
  FormulaParser(std::vector<Token> tokens, const std::vector<Place>& places, const std::string& file,
                const std::vector<std::string>& names)
      : tokens_(std::move(tokens)), places_(places), file_(file), names_(names.begin(), names.end()) {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (tokens_[i].kind == TokenKind::Name && (i == 0 || tokens_[i - 1].kind == TokenKind::Newline))
        names_.emplace(tokens_[i].text);
  }

  Result<Formula> run() {
    Formula formula;
    while (!failed_ && peek().kind != TokenKind::End) {
      if (peek().kind == TokenKind::Newline) {
        take();
        continue;
      }
      formula.statements.push_back(statement());
    }
    if (!failed_ && formula.statements.empty())
      fail("the formula is empty: write what each output is, as in `y[i] = 2 * x[i]`");
    if (failed_) return error_;
    return formula;
  }

 private:
  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }

  Place place_of(const Token& token) const { return places_[token.offset]; }

  // Where the next token is; what is missing at the end of the formula is missing after its last word.
  Place place_here() const {
    if (peek().kind != TokenKind::End) return place_of(peek());
    std::size_t last = at_;
    while (last > 0 && (tokens_[last].kind == TokenKind::End || tokens_[last].kind == TokenKind::Newline))
      --last;
    if (last == at_ || tokens_[last].text.empty()) return place_of(peek());
    const Place end = places_[tokens_[last].offset + tokens_[last].text.size() - 1];
    return {end.line, end.column + 1};
  }

  std::string seen() const {
    if (peek().kind == TokenKind::End) return "the end of the formula";
    if (peek().kind == TokenKind::Newline) return "the end of the line";
    return fmt::format("`{}`", peek().text);
  }

  ExprPtr fail(std::string message, const Token* token = nullptr) {
    if (!failed_) {
      const Place place = token ? place_of(*token) : place_here();
      error_ = {std::move(message), file_, place.line, place.column};
    }
    failed_ = true;
    return nullptr;
  }

  bool expect(std::string_view sign, std::string_view why = "") {
    if (failed_) return false;
    const bool word = sign[0] >= 'a' && sign[0] <= 'z';
    if (word ? !peek().is_word(sign) : !peek().is(sign)) {
      fail(fmt::format("expected `{}`{}, found {}", sign, why, seen()));
      return false;
    }
    take();
    return true;
  }

  ExprPtr node(ExprKind kind, const Token& token) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->place = place_of(token);
    expr->name = token.text;
    return expr;
  }

  ExprPtr pair(const Token& sign, ExprPtr left, ExprPtr right) {
    ExprPtr expr = node(ExprKind::Binary, sign);
    expr->children.push_back(std::move(left));
    expr->children.push_back(std::move(right));
    return expr;
  }

  ExprPtr link(const Token& sign, ExprPtr left, ExprPtr right, int length) {
    if (length > kLongestChain) return fail("this expression is too long; name parts of it");
    return pair(sign, std::move(left), std::move(right));
  }

  Statement statement() {
    Statement result;
    result.place = place_of(peek());
    if (peek().kind != TokenKind::Name || is_keyword(peek().text)) {
      fail(peek().kind == TokenKind::Name
               ? fmt::format("a statement begins with the name that it defines, and `{}` is a keyword",
                             peek().text)
               : fmt::format("a statement begins with the name that it defines, not with {}", seen()));
      return result;
    }
    result.name = take().text;
    if (peek().is("[")) {
      take();
      result.is_element = true;
      do {
        Left left;
        left.expr = expression(0);
        if (!failed_ && peek().is_word("in")) range(left.low, left.high);
        result.left.push_back(std::move(left));
      } while (!failed_ && peek().is(",") && (take(), true));
      expect("]", " after the indices on the left");
    }
    if (failed_) return result;
    if (peek().is("=")) {
      take();
    } else if (peek().is("+=")) {
      take();
      result.kind = AssignKind::Sum;
    } else if ((peek().is_word("max") || peek().is_word("min")) && peek(1).is("=")) {
      result.kind = take().text == "max" ? AssignKind::Max : AssignKind::Min;
      take();
    } else {
      fail(fmt::format("expected `=`, `+=` or `max=` after the left side, found {}", seen()));
      return result;
    }
    result.body = expression(0);
    if (!failed_ && peek().kind != TokenKind::Newline && peek().kind != TokenKind::End)
      fail(fmt::format("expected an operator or the end of the statement, found {}", seen()));
    return result;
  }

  void range(ExprPtr& low, ExprPtr& high) {
    take();
    low = sum(0);
    if (expect("..", " between the ends of a range")) high = sum(0);
  }

  ExprPtr expression(int depth) {
    if (failed_) return nullptr;
    if (depth > kDeepest) return fail("this expression is nested too deeply");
    if (!peek().is_word("if")) return disjunction(depth);
    ExprPtr expr = node(ExprKind::If, take());
    expr->children.push_back(expression(depth + 1));
    if (!expect("then", " after the condition of an `if`")) return nullptr;
    expr->children.push_back(expression(depth + 1));
    if (!failed_ && !peek().is_word("else"))
      return fail(fmt::format("expected `else`, found {}; an `if` needs both branches", seen()));
    if (!expect("else")) return nullptr;
    expr->children.push_back(expression(depth + 1));
    return expr;
  }

  ExprPtr disjunction(int depth) {
    int length = 0;
    ExprPtr left = conjunction(depth);
    while (!failed_ && (peek().is_word("or") || peek().is("||"))) {
      if (peek().is("||")) return fail("write `or` instead of `||`");
      const Token& sign = take();
      left = link(sign, std::move(left), conjunction(depth), ++length);
    }
    return left;
  }

  ExprPtr conjunction(int depth) {
    int length = 0;
    ExprPtr left = negation(depth);
    while (!failed_ && (peek().is_word("and") || peek().is("&&"))) {
      if (peek().is("&&")) return fail("write `and` instead of `&&`");
      const Token& sign = take();
      left = link(sign, std::move(left), negation(depth), ++length);
    }
    return left;
  }

  ExprPtr negation(int depth) {
    if (depth > kDeepest) return fail("this expression is nested too deeply");
    if (peek().is("!")) return fail("write `not` instead of `!`");
    if (!peek().is_word("not")) return comparison(depth);
    ExprPtr expr = node(ExprKind::Unary, take());
    expr->children.push_back(negation(depth + 1));
    return expr;
  }

  bool at_comparison() const {
    return peek().kind == TokenKind::Sign &&
           std::ranges::find(kComparisons, peek().text) != kComparisons.end();
  }

  ExprPtr comparison(int depth) {
    ExprPtr left = sum(depth);
    if (!failed_ && peek().is("=")) return fail("write `==` to compare; `=` defines a name");
    if (failed_ || !at_comparison()) return left;
    const std::size_t sign_at = at_;
    take();
    const std::size_t middle_at = at_;
    ExprPtr chain = pair(tokens_[sign_at], std::move(left), sum(depth));
    if (failed_ || !at_comparison()) return chain;
    // a <= b < c: the middle is read again for the second comparison.
    const std::size_t second_at = at_;
    if (second_at - middle_at > kLongestMiddle)
      return fail("this comparison is too long to be chained; write it with `and`");
    at_ = middle_at;
    ExprPtr middle = sum(depth);
    at_ = second_at;
    const Token& second = take();
    ExprPtr rest = pair(second, std::move(middle), sum(depth));
    Token conjunction_sign = second;
    conjunction_sign.text = "and";
    if (!failed_ && at_comparison())
      return fail("at most two comparisons can be chained; join more with `and`");
    return failed_ ? nullptr : pair(conjunction_sign, std::move(chain), std::move(rest));
  }

  ExprPtr sum(int depth) {
    int length = 0;
    ExprPtr left = product(depth);
    while (!failed_ && (peek().is("+") || peek().is("-"))) {
      const Token& sign = take();
      left = link(sign, std::move(left), product(depth), ++length);
    }
    for (const auto& [sign, instead] : kBitSigns)
      if (!failed_ && peek().is(sign)) return fail(fmt::format("write {} instead of `{}`", instead, sign));
    return left;
  }

  ExprPtr product(int depth) {
    int length = 0;
    ExprPtr left = unary(depth);
    while (!failed_ && (peek().is("*") || peek().is("/") || peek().is("%") || peek().is("//"))) {
      if (peek().is("//"))
        return fail("write `/`, which is floor division in a subscript, or floor(a / b) elsewhere");
      const Token& sign = take();
      left = link(sign, std::move(left), unary(depth), ++length);
    }
    return left;
  }

  ExprPtr unary(int depth) {
    if (failed_) return nullptr;
    if (depth > kDeepest) return fail("this expression is nested too deeply");
    if (peek().is("~")) return fail("write bit_not(a) instead of `~`");
    if (peek().is("+")) {
      take();
      return unary(depth + 1);
    }
    if (!peek().is("-")) return power(depth);
    ExprPtr expr = node(ExprKind::Unary, take());
    expr->children.push_back(unary(depth + 1));
    return expr;
  }

  ExprPtr power(int depth) {
    ExprPtr base = primary(depth + 1);
    if (!failed_ && peek().is("**")) return fail("write `^` for powers");
    if (failed_ || !peek().is("^")) return base;
    const Token& sign = take();
    return pair(sign, std::move(base), unary(depth + 1));
  }

  ExprPtr primary(int depth) {
    if (failed_) return nullptr;
    const Token& token = peek();
    if (token.is("(")) {
      take();
      ExprPtr inner = expression(depth + 1);
      return expect(")") ? std::move(inner) : nullptr;
    }
    if (token.kind == TokenKind::Integer || token.kind == TokenKind::Real) {
      take();
      ExprPtr expr = node(token.kind == TokenKind::Integer ? ExprKind::Integer : ExprKind::Real, token);
      expr->integer = token.integer;
      expr->real = token.real;
      return expr;
    }
    if (token.kind != TokenKind::Name) return fail(fmt::format("expected a value, found {}", seen()));
    if (token.text == "true" || token.text == "false") {
      ExprPtr expr = node(ExprKind::Bool, take());
      expr->integer = expr->name == "true";
      return expr;
    }
    if (token.text == "inf" || token.text == "nan") {
      ExprPtr expr = node(ExprKind::Real, take());
      expr->real = expr->name == "inf" ? HUGE_VAL : NAN;
      return expr;
    }
    if (token.text == "if") return expression(depth + 1);
    const bool own = names_.contains(token.text);
    if (is_reduction(token.text) && peek(1).is("[") && (!own || body_follows())) return reduction(depth);
    if (is_later_reduction(token.text) && peek(1).is("[") && body_follows()) return reduction(depth);
    const bool callable = std::ranges::find(function_names(), token.text) != function_names().end();
    if (token.is_word("present") && !own && peek(1).is("(")) return presence();
    if (peek(1).is("(")) return call(depth);
    if (!own && (callable || is_reduction(token.text)))
      return fail(fmt::format("`{}` is a function: expected `(` after it{}", token.text,
                              is_reduction(token.text) ? ", or `[` and an index" : ""));
    if (is_keyword(token.text)) return fail(fmt::format("expected a value, found `{}`", token.text));
    take();
    if (!peek().is("[")) return node(ExprKind::Name, token);
    ExprPtr expr = node(ExprKind::Element, token);
    take();
    list(*expr, depth);
    if (!expect("]", " after the subscripts")) return nullptr;
    if (peek().is("["))
      return fail(fmt::format("write subscripts in one pair of brackets: {}[i, j]", token.text));
    if (!peek().is("(")) return expr;
    for (const auto& [word, instead] : kInstead)
      if (word == token.text)
        return fail(fmt::format("`{}` is not a reduction; write {}", token.text, instead), &token);
    std::vector<std::string> words(kReductions.begin(), kReductions.end());
    words.insert(words.end(), kChoices.begin(), kChoices.end());
    for (const auto& [word, reduction] : kScans) words.emplace_back(word);
    const std::string near = nearest(token.text, words);
    return fail(
        fmt::format(
            "`{}` is not a reduction{}", token.text,
            near.empty()
                ? "; sum, prod, mean, max, min, argmax, argmin, cumsum, cumprod, cummax and cummin are"
                : fmt::format("; did you mean `{}`?", near)),
        &token);
  }

  // Whether the brackets after this word have a '(' behind them: `mean[c]` may be a tensor, `mean[c](x)` may
  // not.
  bool body_follows() const {
    int open = 0;
    for (std::size_t i = at_ + 1; i + 1 < tokens_.size(); ++i) {
      open += tokens_[i].is("[") - tokens_[i].is("]");
      if (open == 0) return tokens_[i + 1].is("(");
    }
    return false;
  }

  void list(Expr& expr, int depth) {
    do {
      expr.children.push_back(expression(depth + 1));
    } while (!failed_ && peek().is(",") && (take(), true));
  }

  ExprPtr call(int depth) {
    const Token& token = peek();
    const auto& known = function_names();
    if (!is_also_callable(token.text) && std::ranges::find(known, token.text) == known.end()) {
      for (const auto& [word, instead] : kInstead)
        if (word == token.text)
          return fail(fmt::format("`{}` is not a function; write {}", token.text, instead));
      if (is_reduction(token.text) || is_later_reduction(token.text))
        return fail(fmt::format("`{}` needs an index: {}[k](...)", token.text, token.text));
      std::vector<std::string> words = known;
      words.insert(words.end(), kAlsoCallable.begin(), kAlsoCallable.end());
      for (int i = kReservedDTypes; i < kDTypeCount; ++i)
        words.emplace_back(info(static_cast<DType>(i)).name);
      const std::string near = nearest(token.text, words);
      return fail(fmt::format("`{}` is not a function{}", token.text,
                              near.empty() ? "; a tensor's element is written with [ ]"
                                           : fmt::format("; did you mean `{}`?", near)));
    }
    take();
    ExprPtr expr = node(ExprKind::Call, token);
    take();
    list(*expr, depth);
    return expect(")", fmt::format(" after the arguments of `{}`", token.text)) ? std::move(expr) : nullptr;
  }

  // present(bias): a name of its own (Contract's presence_of).
  ExprPtr presence() {
    ExprPtr expr = node(ExprKind::Name, take());
    take();
    if (peek().kind != TokenKind::Name || !peek(1).is(")"))
      return fail(fmt::format("`present` takes the name of an optional tensor, as in present(bias); found {}",
                              seen()));
    expr->name = presence_of(take().text);
    take();
    return expr;
  }

  ExprPtr reduction(int depth) {
    const Token& token = take();
    ExprPtr expr = node(ExprKind::Reduce, token);
    take();
    do {
      Binder binder;
      binder.place = place_of(peek());
      if (peek().kind != TokenKind::Name || is_reserved(peek().text))
        return fail(fmt::format("expected the name of an index in `{}[...]`, found {}", token.text, seen()));
      binder.name = take().text;
      if (peek().is_word("in")) range(binder.low, binder.high);
      expr->binders.push_back(std::move(binder));
    } while (!failed_ && peek().is(",") && (take(), true));
    ExprPtr filter;
    if (!failed_ && peek().is("|")) {
      take();
      filter = expression(depth + 1);
    }
    for (const std::string_view sign : {"<", "<=", ">", ">=", "==", "!="})
      if (!failed_ && peek().is(sign))
        return fail(fmt::format(
            "write a condition after `|`, as in {0}[j | j <= i](...), and a range as {0}[j in 0..n](...)",
            token.text));
    if (!expect("]", fmt::format(" after the indices of `{}`", token.text))) return nullptr;
    if (!expect("(", fmt::format(" after `{}[...]`", token.text))) return nullptr;
    expr->children.push_back(expression(depth + 1));
    if (filter) expr->children.push_back(std::move(filter));
    if (!failed_ && peek().is(",") && token.text.starts_with("topk"))
      return fail(fmt::format("`{}` takes one argument; the extent on the left says how many are chosen",
                              token.text));
    if (!expect(")", fmt::format(" after the body of `{}`", token.text))) return nullptr;
    for (const auto& [word, reduction] : kScans)
      if (word == token.text) return scan(std::move(expr), token, std::string(reduction));
    return expr;
  }

  // cumsum[k](e) is sum[k' in 0..k + 1](e'), where e' is e with k' for k.
  ExprPtr scan(ExprPtr expr, const Token& token, std::string reduction) {
    Binder& binder = expr->binders[0];
    if (expr->binders.size() != 1 || binder.low || expr->children.size() != 1)
      return fail(fmt::format("`{0}` runs along one index, from its start: {0}[k](...)", token.text), &token);
    const std::string running = binder.name + "'";
    const auto leaf = [&](ExprKind kind, std::string name, int64_t integer) {
      auto made = std::make_unique<Expr>();
      made->kind = kind;
      made->place = binder.place;
      made->name = std::move(name);
      made->integer = integer;
      made->real = static_cast<double>(integer);
      return made;
    };
    rename(*expr->children[0], binder.name, running);
    auto end = leaf(ExprKind::Binary, "+", 0);
    end->children.push_back(leaf(ExprKind::Name, binder.name, 0));
    end->children.push_back(leaf(ExprKind::Integer, "1", 1));
    binder.low = leaf(ExprKind::Integer, "0", 0);
    binder.high = std::move(end);
    binder.name = running;
    expr->name = std::move(reduction);
    return expr;
  }

  static void rename(Expr& expr, const std::string& from, const std::string& to) {
    if (expr.kind == ExprKind::Name && expr.name == from) expr.name = to;
    for (ExprPtr& child : expr.children) rename(*child, from, to);
    for (Binder& binder : expr.binders)
      for (ExprPtr* end : {&binder.low, &binder.high})
        if (*end) rename(**end, from, to);
  }

  std::vector<Token> tokens_;
  const std::vector<Place>& places_;
  const std::string& file_;
  std::set<std::string, std::less<>> names_;  // of the contract and of the formula, whatever else they mean
  std::size_t at_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace

Result<Formula> parse_formula(std::string_view text, const std::vector<Place>& places,
                              const std::string& file, const std::vector<std::string>& names) {
  Result<std::vector<Token>> tokens = tokenize(text);
  if (!tokens) {
    const Place place = places[static_cast<std::size_t>(tokens.error().column) - 1];
    return Error{tokens.error().message, file, place.line, place.column};
  }
  return FormulaParser(join_lines(*tokens), places, file, names).run();
}

Result<Formula> parse_formula(std::string_view text, Place place, const std::string& file,
                              const std::vector<std::string>& names) {
  return parse_formula(text, std::vector<Place>(text.size() + 1, place), file, names);
}

const std::vector<std::string>& function_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = {"exp",      "log",      "log1p", "expm1", "sqrt", "rsqrt", "tanh",
                                     "erf",      "sigmoid",  "sin",   "cos",   "abs",  "floor", "pow",
                                     "min",      "max",      "ceil",  "round", "exp2", "log2",  "erfc",
                                     "softplus", "ceil_div", "sign",  "isnan"};
    for (int i = 0; i < kReservedDTypes; ++i) list.emplace_back(info(static_cast<DType>(i)).name);
    return list;
  }();
  return names;
}

std::optional<DType> stochastic_rounding(std::string_view word) {
  constexpr std::string_view kPrefix = "sr_";
  if (!word.starts_with(kPrefix)) return {};
  const std::optional<DType> dtype = dtype_named(word.substr(kPrefix.size()));
  return dtype && is_float(*dtype) ? dtype : std::nullopt;
}

bool is_reduction(std::string_view word) {
  return std::ranges::find(kReductions, word) != kReductions.end();
}

bool is_keyword(std::string_view word) {
  return std::ranges::find(kWords, word) != kWords.end();
}

bool is_reserved(std::string_view word) {
  return is_keyword(word) || is_reduction(word) ||
         std::ranges::find(function_names(), word) != function_names().end();
}

}  // namespace assay::contract
