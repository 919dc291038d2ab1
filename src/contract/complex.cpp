#include "contract/complex.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "contract/expr.h"

namespace assay::contract {
namespace {

// The index of the parts on the left side. No formula can write it.
constexpr std::string_view kPart = "part'";
// Of a product of n factors, each part has 2^(n-1) terms.
constexpr int64_t kMostNodes = 20000;
constexpr int64_t kNodesOfQuotient = 40;
constexpr int64_t kLargestPower = 8;
constexpr std::size_t kMostSeparateTerms = 8;  // of a complex product that are terms of a sum by themselves

constexpr std::array<std::string_view, 4> kOfComplex = {"re", "im", "conj", "complex"};

// A number of which the imaginary part may be missing: then it is real.
struct Parts {
  ExprPtr re, im;
};

class Splitter {
 public:
  explicit Splitter(const Contract& contract) : contract_(contract) {
    for (const TensorSpec& tensor : contract.tensors)
      if (tensor.is_complex) complex_.insert(tensor.name);
  }

  Result<Formula> run(Formula formula) {
    Formula made;
    for (Statement& statement : formula.statements) {
      made.statements.push_back(split(std::move(statement)));
      if (failed_) return error_;
    }
    return made;
  }

 private:
  void fail(Place place, std::string message) {
    if (!failed_) error_ = contract_.error_at(place, std::move(message));
    failed_ = true;
  }

  Statement split(Statement statement) {
    for (Left& left : statement.left)
      for (ExprPtr* part : {&left.expr, &left.low, &left.high})
        if (*part) *part = real(std::move(*part), "a subscript");
    nodes_ = 0;
    Parts body = parts(*statement.body);
    if (failed_) return statement;
    const bool is_complex = body.im != nullptr;
    const TensorSpec* tensor = contract_.tensor(statement.name);
    const Place place = statement.body->place;
    if (tensor && !tensor->is_complex && is_complex)
      fail(place, fmt::format("`{}` is {}, but this is complex; write re(...), im(...) or abs(...)",
                              statement.name, info(tensor->dtype).name));
    if (!tensor && is_complex && real_.contains(statement.name))
      fail(place, fmt::format("`{}` was real above, but this is complex; start with complex(..., 0)",
                              statement.name));
    if (!tensor) (is_complex || complex_.contains(statement.name) ? complex_ : real_).insert(statement.name);
    if (!complex_.contains(statement.name)) {
      statement.body = std::move(body.re);
      return statement;
    }
    if (statement.kind == AssignKind::Max || statement.kind == AssignKind::Min)
      fail(statement.place, "complex numbers have no order: compare abs(...), re(...) or im(...)");
    if (tensor) check_subscripts(*tensor, statement.left.size(), statement.place);
    if (uses_draw(*statement.body))
      fail(statement.body->place,
           "a random draw cannot decide a complex number; let it decide re(...) and im(...) of real outputs");
    Left part{name_of(std::string(kPart), statement.place), integer(0, statement.place),
              integer(2, statement.place)};
    statement.left.push_back(std::move(part));
    statement.is_element = true;
    if (!body.im) body.im = integer(0, place);
    const bool summed_up = statement.kind == AssignKind::Sum;
    if (summed_up)
      add_one_by_one(statement, body);
    else
      for (ExprPtr* one : {&body.re, &body.im}) allow_any_order(**one);
    statement.body = choice(binary("==", name_of(std::string(kPart), place), integer(0, place)),
                            std::move(body.re), std::move(body.im), place);
    return statement;
  }

  // Products of the parts, and what is added to them: `(a.re * b.re + c.re) - a.im * b.im` is as good as the other way round.
  static void allow_any_order(Expr& part) {
    constexpr std::size_t kFewTerms = 3;  // two have one order
    std::vector<ExprPtr> terms;
    add_terms(clone(part), false, terms);
    if (terms.size() >= kFewTerms && part.kind == ExprKind::Binary) part.integer = kAnyOrder;
  }

  // `y[i] += a * b`: kernels add the products of the parts to y one by one. So they are terms of the sum themselves.
  void add_one_by_one(Statement& statement, Parts& body) {
    std::vector<ExprPtr> re, im;
    add_terms(clone(*body.re), false, re);
    add_terms(clone(*body.im), false, im);
    if (re.size() != im.size() || re.size() < 2 || re.size() > kMostSeparateTerms) return;
    const Place place = statement.place;
    Binder which = terms_index(re.size(), place);
    body = {one_of(std::move(re), which.name, place), one_of(std::move(im), which.name, place)};
    statement.loops.push_back(std::move(which));
  }

  static bool uses_draw(const Expr& expr) {
    if (expr.kind == ExprKind::Call && (expr.name == "random" || stochastic_rounding(expr.name))) return true;
    return std::ranges::any_of(expr.children, [](const ExprPtr& child) { return uses_draw(*child); });
  }

  void check_subscripts(const TensorSpec& tensor, std::size_t given, Place place) {
    const std::size_t wanted = tensor.shape.size() - 1;
    if (given != wanted)
      fail(place, fmt::format("`{}` has {} dimension{}, but {} {} given", tensor.name, wanted,
                              wanted == 1 ? "" : "s", given, given == 1 ? "index is" : "indices are"));
  }

  // An expression that has to be real.
  ExprPtr real(ExprPtr expr, std::string_view what) {
    Parts made = parts(*expr);
    if (made.im)
      fail(expr->place, fmt::format("{} cannot be complex; write re(...), im(...) or abs(...)", what));
    return std::move(made.re);
  }

  Parts parts(const Expr& expr) {
    if (failed_ || ++nodes_ > kMostNodes) {
      fail(expr.place, "this expression of complex numbers is too long; name parts of it");
      return {clone(expr), nullptr};
    }
    switch (expr.kind) {
      case ExprKind::Name:
      case ExprKind::Element:
        return element(expr);
      case ExprKind::Call:
        return call_of(expr);
      case ExprKind::Unary:
        return unary(expr);
      case ExprKind::Binary:
        return binary_of(expr);
      case ExprKind::If:
        return chosen(expr);
      case ExprKind::Reduce:
        return reduced(expr);
      default:
        return {clone(expr), nullptr};
    }
  }

  Parts element(const Expr& expr) {
    ExprPtr copy = clone(expr);
    for (ExprPtr& child : copy->children) child = real(std::move(child), "a subscript");
    if (const ScalarSpec* first = contract_.scalar(real_part_of(expr.name)); first && expr.children.empty())
      return {name_of(first->name, expr.place), name_of(imaginary_part_of(expr.name), expr.place)};
    if (!complex_.contains(expr.name)) return {std::move(copy), nullptr};
    if (const TensorSpec* tensor = contract_.tensor(expr.name))
      check_subscripts(*tensor, expr.children.size(), expr.place);
    copy->kind = ExprKind::Element;
    Parts both{std::move(copy), nullptr};
    both.im = clone(*both.re);
    both.re->children.push_back(integer(0, expr.place));
    both.im->children.push_back(integer(1, expr.place));
    return both;
  }

  Parts call_of(const Expr& expr) {
    std::vector<Parts> arguments;
    bool any = false;
    for (const ExprPtr& child : expr.children) {
      arguments.push_back(parts(*child));
      any = any || arguments.back().im;
    }
    const bool ours = std::ranges::find(kOfComplex, expr.name) != kOfComplex.end();
    const std::size_t wanted = expr.name == "complex" ? 2 : 1;
    if (ours && arguments.size() != wanted)
      fail(expr.place,
           fmt::format("`{}` takes {}, not {}", expr.name,
                       wanted == 2 ? "2 arguments, the real and the imaginary part" : "1 argument",
                       arguments.size()));
    if (failed_) return {clone(expr), nullptr};
    if (expr.name == "complex") {
      if (any) fail(expr.place, "the parts of complex(a, b) are real numbers");
      return {std::move(arguments[0].re), std::move(arguments[1].re)};
    }
    if (expr.name == "re") return {std::move(arguments[0].re), nullptr};
    if (expr.name == "im") return {any ? std::move(arguments[0].im) : integer(0, expr.place), nullptr};
    if (expr.name == "conj")
      return {std::move(arguments[0].re), any ? minus(std::move(arguments[0].im)) : nullptr};
    if (!any) {
      ExprPtr copy = clone(expr);
      for (std::size_t i = 0; i < arguments.size(); ++i) copy->children[i] = std::move(arguments[i].re);
      return {std::move(copy), nullptr};
    }
    Parts& z = arguments[0];
    if (expr.name == "abs") return {call("sqrt", squared(z)), nullptr};
    if (expr.name == "isnan")
      return {binary("or", call("isnan", std::move(z.re)), call("isnan", std::move(z.im))), nullptr};
    if (expr.name == "exp") {
      ExprPtr size = call("exp", std::move(z.re));
      ExprPtr turn = clone(*z.im);
      return {binary("*", clone(*size), call("cos", std::move(turn))),
              binary("*", std::move(size), call("sin", std::move(z.im)))};
    }
    fail(expr.place,
         fmt::format("`{}` does not take a complex number; re, im, conj, abs, exp and isnan do", expr.name));
    return {clone(expr), nullptr};
  }

  // abs(z)^2, which takes no root.
  static bool is_square_of_size(const Expr& expr) {
    return is_binary(expr, "^") && is_call(*expr.children[0], "abs") &&
           expr.children[0]->children.size() == 1 && is_integer(*expr.children[1], 2);
  }

  // re² + im²
  static ExprPtr squared(const Parts& z) {
    const auto square = [](const Expr& part) { return binary("^", clone(part), integer(2, part.place)); };
    return binary("+", square(*z.re), square(*z.im));
  }

  Parts unary(const Expr& expr) {
    Parts inner = parts(*expr.children[0]);
    if (inner.im && expr.name != "-") fail(expr.place, "a condition cannot be complex");
    const auto signed_part = [&](ExprPtr part) {
      ExprPtr made = clone(expr);
      made->children[0] = std::move(part);
      return made;
    };
    if (!inner.im) return {signed_part(std::move(inner.re)), nullptr};
    return {signed_part(std::move(inner.re)), signed_part(std::move(inner.im))};
  }

  // The same operation on real operands, where it stands in the file.
  static ExprPtr at(const Expr& like, std::string_view sign, ExprPtr a, ExprPtr b) {
    ExprPtr made = binary(std::string(sign), std::move(a), std::move(b));
    made->place = like.place;
    return made;
  }

  Parts binary_of(const Expr& expr) {
    if (is_square_of_size(expr))
      if (Parts z = parts(*expr.children[0]->children[0]); z.im) return {squared(z), nullptr};
    Parts a = parts(*expr.children[0]), b = parts(*expr.children[1]);
    if (failed_) return {clone(expr), nullptr};
    const std::string& sign = expr.name;
    if (!a.im && !b.im) return {at(expr, sign, std::move(a.re), std::move(b.re)), nullptr};
    if (sign == "+" || sign == "-") return added(expr, std::move(a), std::move(b));
    if (sign == "*") return multiplied(expr, a, b);
    if (sign == "/") return divided(expr, std::move(a), b);
    if (sign == "^") return raised(expr, a, b);
    if (sign == "==" || sign == "!=") return compared(expr, std::move(a), std::move(b));
    fail(expr.place, sign == "and" || sign == "or"
                         ? "a condition cannot be complex"
                         : fmt::format("`{}` has no meaning for complex numbers; write re(...), im(...) or "
                                       "abs(...)",
                                       sign));
    return {clone(expr), nullptr};
  }

  Parts added(const Expr& expr, Parts a, Parts b) {
    Parts made;
    made.re = at(expr, expr.name, std::move(a.re), std::move(b.re));
    if (a.im && b.im)
      made.im = at(expr, expr.name, std::move(a.im), std::move(b.im));
    else if (a.im)
      made.im = std::move(a.im);
    else
      made.im = expr.name == "-" ? minus(std::move(b.im)) : std::move(b.im);
    return made;
  }

  Parts multiplied(const Expr& expr, const Parts& a, const Parts& b) {
    const auto product = [&](const ExprPtr& x, const ExprPtr& y) {
      nodes_ += 2;
      return at(expr, "*", clone(*x), clone(*y));
    };
    if (!a.im) return {product(a.re, b.re), product(a.re, b.im)};
    if (!b.im) return {product(a.re, b.re), product(a.im, b.re)};
    return {at(expr, "-", product(a.re, b.re), product(a.im, b.im)),
            at(expr, "+", product(a.re, b.im), product(a.im, b.re))};
  }

  // a conj(b) / |b|², term by term: kernels scale one operand or both before they multiply, so each term is rounded.
  Parts divided(const Expr& expr, Parts a, const Parts& b) {
    if (!b.im) {
      return {at(expr, "/", std::move(a.re), clone(*b.re)), at(expr, "/", std::move(a.im), clone(*b.re))};
    }
    const auto term = [&](const ExprPtr& x, const ExprPtr& y) {
      return at(expr, "*", clone(*x), at(expr, "/", clone(*y), squared(b)));
    };
    nodes_ += kNodesOfQuotient;
    if (!a.im) return {term(a.re, b.re), minus(term(a.re, b.im))};
    return {at(expr, "+", term(a.re, b.re), term(a.im, b.im)),
            at(expr, "-", term(a.im, b.re), term(a.re, b.im))};
  }

  Parts raised(const Expr& expr, const Parts& a, const Parts& b) {
    if (b.im || b.re->kind != ExprKind::Integer || b.re->integer < 1 || b.re->integer > kLargestPower) {
      fail(expr.place, fmt::format("a power of a complex number is an integer from 1 to {}", kLargestPower));
      return {clone(expr), nullptr};
    }
    Parts made{clone(*a.re), clone(*a.im)};
    for (int64_t n = 1; n < b.re->integer; ++n) made = multiplied(expr, made, a);
    return made;
  }

  Parts compared(const Expr& expr, Parts a, Parts b) {
    for (Parts* one : {&a, &b})
      if (!one->im) one->im = integer(0, expr.place);
    ExprPtr both =
        at(expr, expr.name == "==" ? "and" : "or", at(expr, expr.name, std::move(a.re), std::move(b.re)),
           at(expr, expr.name, std::move(a.im), std::move(b.im)));
    return {std::move(both), nullptr};
  }

  Parts chosen(const Expr& expr) {
    ExprPtr condition = real(clone(*expr.children[0]), "a condition");
    Parts yes = parts(*expr.children[1]), no = parts(*expr.children[2]);
    const auto made = [&](ExprPtr a, ExprPtr b) {
      ExprPtr one = clone(expr);
      one->children[0] = clone(*condition);
      one->children[1] = std::move(a);
      one->children[2] = std::move(b);
      return one;
    };
    if (!yes.im && !no.im) return {made(std::move(yes.re), std::move(no.re)), nullptr};
    for (Parts* one : {&yes, &no})
      if (!one->im) one->im = integer(0, expr.place);
    return {made(std::move(yes.re), std::move(no.re)), made(std::move(yes.im), std::move(no.im))};
  }

  Parts reduced(const Expr& expr) {
    ExprPtr copy = clone(expr);
    for (Binder& binder : copy->binders)
      for (ExprPtr* end : {&binder.low, &binder.high})
        if (*end) *end = real(std::move(*end), "a range");
    if (copy->children.size() > 1) copy->children[1] = real(std::move(copy->children[1]), "a condition");
    Parts body = parts(*expr.children[0]);
    if (body.im && expr.name != "sum" && expr.name != "mean") {
      fail(expr.place,
           expr.name == "prod"
               ? "`prod` is for real numbers"
               : fmt::format("`{}` has no meaning for complex numbers, which have no order; compare "
                             "abs(...), re(...) or im(...)",
                             expr.name));
      return {std::move(copy), nullptr};
    }
    if (!body.im) return {summed(*copy, std::move(body.re), false), nullptr};
    return {summed(*copy, std::move(body.re), true), summed(*copy, std::move(body.im), true)};
  }

  // The terms of a sum, with their signs.
  static void add_terms(ExprPtr expr, bool negative, std::vector<ExprPtr>& terms) {
    if (is_binary(*expr, "+") || is_binary(*expr, "-")) {
      const bool minus_right = is_binary(*expr, "-");
      add_terms(std::move(expr->children[0]), negative, terms);
      add_terms(std::move(expr->children[1]), negative != minus_right, terms);
    } else if (expr->kind == ExprKind::Unary && expr->name == "-") {
      add_terms(std::move(expr->children[0]), !negative, terms);
    } else {
      terms.push_back(negative ? minus(std::move(expr)) : std::move(expr));
    }
  }

  // A sum of products: kernels add the products of the parts in any order, or all of one kind first (a complex product
  // of matrices as four real ones). So they are terms of one sum, over one index more: which of them it is.
  ExprPtr summed(const Expr& reduction, ExprPtr part, bool in_terms) {
    ExprPtr one = clone(reduction);
    std::vector<ExprPtr> terms;
    if (in_terms) add_terms(clone(*part), false, terms);
    if (terms.size() < 2 || terms.size() > kMostSeparateTerms) {
      one->children[0] = std::move(part);
      return one;
    }
    const Place place = part->place;
    const auto count = static_cast<int64_t>(terms.size());
    Binder which = terms_index(terms.size(), place);
    one->children[0] = one_of(std::move(terms), which.name, place);
    one->binders.insert(one->binders.begin(), std::move(which));
    if (one->name != "mean") return one;
    return binary("*", integer(count, place), std::move(one));  // it divides by so many more
  }

  // The index that says which of so many terms it is.
  Binder terms_index(std::size_t count, Place place) {
    return {fmt::format("term{}'", ++sums_), place, integer(0, place),
            integer(static_cast<int64_t>(count), place)};
  }

  static ExprPtr one_of(std::vector<ExprPtr> terms, const std::string& which, Place place) {
    ExprPtr body = std::move(terms.back());
    for (auto i = static_cast<int64_t>(terms.size()) - 2; i >= 0; --i)
      body = choice(binary("==", name_of(which, place), integer(i, place)),
                    std::move(terms[static_cast<std::size_t>(i)]), std::move(body), place);
    return body;
  }

  // Both sides have the same ranges.
  static ExprPtr choice(ExprPtr condition, ExprPtr yes, ExprPtr no, Place place) {
    auto made = std::make_unique<Expr>();
    made->kind = ExprKind::If;
    made->name = kPartChoice;
    made->place = place;
    made->children.push_back(std::move(condition));
    made->children.push_back(std::move(yes));
    made->children.push_back(std::move(no));
    return made;
  }

  const Contract& contract_;
  std::set<std::string, std::less<>> complex_, real_;  // names; of real ones those that the formula defines
  int64_t nodes_ = 0;
  int sums_ = 0;
  bool failed_ = false;
  Error error_;
};

bool calls_ours(const Expr& expr) {
  if (expr.kind == ExprKind::Call && std::ranges::find(kOfComplex, expr.name) != kOfComplex.end())
    return true;
  return std::ranges::any_of(expr.children, [](const ExprPtr& child) { return calls_ours(*child); });
}

}  // namespace

std::string real_part_of(std::string_view scalar) {
  return fmt::format("{}.re", scalar);
}

std::string imaginary_part_of(std::string_view scalar) {
  return fmt::format("{}.im", scalar);
}

std::string_view type_name(const TensorSpec& tensor) {
  if (tensor.is_complex)
    for (const ComplexType& type : kComplexTypes)
      if (type.part == tensor.dtype) return type.name;
  return info(tensor.dtype).name;
}

std::string element_name(std::span<const int64_t> extents, int64_t element, bool is_complex) {
  if (!is_complex || extents.empty()) return coordinates(extents, element);
  return coordinates(extents.first(extents.size() - 1), element / 2) + (element % 2 == 0 ? ".re" : ".im");
}

Result<Formula> in_real_numbers(const Contract& contract, Formula formula) {
  const bool has_tensor =
      std::ranges::any_of(contract.tensors, [](const TensorSpec& tensor) { return tensor.is_complex; });
  const bool has_scalar = std::ranges::any_of(
      contract.scalars, [](const ScalarSpec& scalar) { return scalar.name.ends_with(".re"); });
  const bool calls = std::ranges::any_of(
      formula.statements, [](const Statement& statement) { return calls_ours(*statement.body); });
  if (!has_tensor && !has_scalar && !calls) return formula;
  return Splitter(contract).run(std::move(formula));
}

}  // namespace assay::contract
