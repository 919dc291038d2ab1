#include "reference/shifted.h"

#include <algorithm>
#include <limits>

#include "reference/shifter.h"

namespace assay::reference {

// ---- scales -----------------------------------------------------------------------------

// sum[k](exp(x[k] - m)), m = max[k](x[k]).
bool Shifter::is_shifted_by_maximum(const Expr& reduction, const Expr& scale) {
  if (!is_binary(scale, "-")) return false;
  ExprPtr largest = clone(reduction);
  largest->name = "max";
  largest->children[0] = clone(*scale.children[0]);
  const std::string wanted = canonical_text(*largest);
  ExprPtr m = clone(*scale.children[1]);
  while (m) {
    if (canonical_text(*m) == wanted) return true;
    if (is_float_cast(*m)) {
      ExprPtr inner = std::move(m->children[0]);
      m = std::move(inner);
      continue;
    }
    m = expanded(*m);
  }
  return false;
}

Scale Shifter::scale_of_reduction(const Expr& expr) {
  if (expr.name == "argmax" || expr.name == "argmin") return {};
  Scale inner = scale(*expr.children[0]);
  if (!inner || is_shifted_by_maximum(expr, *inner.at)) return {};
  ExprPtr made = clone(expr);
  made->name = expr.name == "min" ? "min" : "max";
  made->children[0] = std::move(inner.at);
  rename_binders(made, [this](const std::string& name) { return fresh(name); });
  return {std::move(made), inner.two};
}

// A quotient of which the part below keeps the size: a probability, not exp(a) / exp(b).
bool Shifter::is_normalised(const Expr& quotient) {
  return is_binary(quotient, "/") && scale(*quotient.children[0]) && scale(*quotient.children[1]) &&
         !is_one_exp(*quotient.children[1]);
}

// A product of exps and of things without scale.
bool Shifter::is_one_exp(const Expr& expr) {
  if (!scale(expr)) return true;
  if (is_exp(expr)) return true;
  if (changes_sign_only(expr)) return is_one_exp(*expr.children[0]);
  if (is_binary(expr, "*") || is_binary(expr, "/"))
    return is_one_exp(*expr.children[0]) && is_one_exp(*expr.children[1]);
  const ExprPtr named = expanded(expr);
  return named && is_one_exp(*named);
}

// `of_logarithm`: of a probability, too, which has none elsewhere: it is a number of ordinary size.
Scale Shifter::scale(const Expr& expr, bool of_logarithm) {
  if (!has_exp(expr)) return {};
  const auto child = [&](std::size_t i) { return scale(*expr.children[i], of_logarithm); };
  if (is_exp(expr)) {
    if (is_literal(*expr.children[0])) return {};
    return {stable(*expr.children[0]), expr.name == "exp2"};
  }
  if (changes_sign_only(expr) || is_float_cast(expr)) return child(0);
  if (is_binary(expr, "*")) return sum_of(child(0), child(1));
  if (is_binary(expr, "/")) {
    if (!of_logarithm && is_normalised(expr)) return {};
    return difference_of(child(0), child(1));
  }
  if (is_sum(expr)) return extreme_of(child(0), child(1), "max");
  if (is_power(expr)) {
    const Scale base = child(0);
    return base ? times(base, stable(*expr.children[1])) : Scale{};
  }
  if (is_root(expr)) {
    const Scale base = child(0);
    return base ? times(base, real(expr.name == "sqrt" ? 0.5 : -0.5, expr.place)) : Scale{};
  }
  if (is_extreme_call(expr)) {
    Scale most = child(0);
    for (std::size_t i = 1; i < expr.children.size(); ++i)
      most = extreme_of(most, child(i), expr.name == "max" ? "max" : "min");
    return most;
  }
  if (expr.kind == ExprKind::If) {
    const Scale yes = child(1), no = child(2);
    if (!yes && !no) return {};
    const bool two = (!yes || yes.two) && (!no || no.two);
    const auto branch = [&](const Scale& one, const Expr& value) {
      if (one) return in_base(one, two);
      return is_integer(value, 0) ? minus(real(std::numeric_limits<double>::infinity(), value.place))
                                  : integer(0, value.place);
    };
    ExprPtr made = clone(expr);
    made->children[0] = stable(*expr.children[0]);
    made->children[1] = branch(yes, *expr.children[1]);
    made->children[2] = branch(no, *expr.children[2]);
    return {std::move(made), two};
  }
  if (expr.kind == ExprKind::Reduce) return scale_of_reduction(expr);
  if (is_scattered(expr)) return {part_of(expr, kTop), false};
  const ExprPtr named = expanded(expr);
  return named ? scale(*named, of_logarithm) : Scale{};
}

// ---- rescaling --------------------------------------------------------------------------

// e * exp(-m), without e itself.
ExprPtr Shifter::rescaled(const Expr& expr, const Scale& m) {
  if (is_integer(expr, 0)) return clone(expr);
  const Scale own = scale(expr, true);
  if (!own) {
    ExprPtr factor = exp_of(minus(clone(*m.at)), m.two, expr.place);
    return product(stable(expr), std::move(factor));
  }
  if (is_exp(expr)) {
    const bool two = expr.name == "exp2";
    return exp_of(less(stable(*expr.children[0]), *in_base(m, two)), two, expr.place);
  }
  if (is_binary(expr, "*")) {
    const Scale a = scale(*expr.children[0], true), b = scale(*expr.children[1], true);
    if (!b) return product(rescaled(*expr.children[0], m), stable(*expr.children[1]));
    if (!a) return product(stable(*expr.children[0]), rescaled(*expr.children[1], m));
    return with_rest(
        product(rescaled(*expr.children[0], guarded(a)), rescaled(*expr.children[1], guarded(b))), own, m);
  }
  if (is_binary(expr, "/")) return rescaled_quotient(expr, m);
  if (is_power(expr) || is_root(expr)) {
    ExprPtr made = clone(expr);
    const Scale base = guarded(scale(*expr.children[0], true));
    made->children[0] = rescaled(*expr.children[0], base);
    const bool one = is_integer(*made->children[0], 1);
    if (one) made = integer(1, expr.place);
    if (!one && is_power(expr)) made->children[1] = stable(*expr.children[1]);
    return with_rest(std::move(made), own, m);
  }
  if (is_scattered(expr)) return with_rest(part_of(expr, kSum), own, m);
  if (expr.kind == ExprKind::Name || expr.kind == ExprKind::Element) return rescaled(*expanded(expr), m);
  // Sums, extremes, signs, conditions, reductions: each part by the same.
  ExprPtr made = clone(expr);
  const bool only_first = expr.kind == ExprKind::Reduce;
  for (std::size_t i = 0; i < expr.children.size(); ++i) {
    const bool condition = expr.kind == ExprKind::If ? i == 0 : only_first && i > 0;
    made->children[i] = condition ? stable(*expr.children[i]) : rescaled(*expr.children[i], m);
  }
  return made;
}

ExprPtr Shifter::rescaled_quotient(const Expr& expr, const Scale& m) {
  const Expr &above = *expr.children[0], &below = *expr.children[1];
  const Scale a = scale(above, true), b = scale(below, true);
  if (!b) return quotient(rescaled(above, m), stable(below));
  const Scale own = difference_of(a, b);
  ExprPtr top = a ? rescaled(above, guarded(a)) : stable(above);
  ExprPtr rest = quotient(std::move(top), rescaled(below, guarded(b)));
  return with_rest(std::move(rest), own, m);
}

// ---- where a scale cancels --------------------------------------------------------------

ExprPtr Shifter::children_stable(const Expr& expr) {
  ExprPtr made = clone(expr);
  for (ExprPtr& child : made->children) child = stable(*child);
  for (Binder& binder : made->binders)
    for (ExprPtr* end : {&binder.low, &binder.high})
      if (*end) *end = stable(**end);
  return made;
}

ExprPtr Shifter::stable_quotient(const Expr& expr) {
  const Expr &above = *expr.children[0], &below = *expr.children[1];
  const Scale a = scale(above), b = scale(below);
  // 1 / (1 + exp(-x)) is 0 where its exp overflows, which is what it should be.
  if (!a || !b) return children_stable(expr);
  // One exp above, and a sum of this element's own below: 1 / (1 + exp(b - a)).
  const bool by_above = is_one_exp(above) && !is_one_exp(below) && !is_shared(*b.at);
  const Scale m = guarded(by_above ? a : b);
  return quotient(rescaled(above, m), rescaled(below, m));
}

ExprPtr Shifter::stable_logarithm(const Expr& expr) {
  const Scale own = scale(*expr.children[0], true);
  if (!own) return children_stable(expr);
  const Scale m = guarded(own);
  ExprPtr inner = rescaled(*expr.children[0], m);
  ExprPtr rest = is_integer(*inner, 1) ? real(0, expr.place) : call(expr.name, std::move(inner));
  return call(std::string(kLogOfScaled), in_base(m, expr.name == "log2"), std::move(rest));
}

ExprPtr Shifter::stable_log1p(const Expr& expr) {
  const Expr& argument = *expr.children[0];
  const Scale own = scale(argument, true);
  if (!own) return children_stable(expr);
  const Scale m = guarded(own);
  if (is_integer(*rescaled(argument, m), 1)) return call("softplus", in_base(own, false));
  ExprPtr at = in_base(m, false);
  ExprPtr sum = binary("+", call("exp", minus(clone(*at))), rescaled(argument, m));
  auto made = std::make_unique<Expr>();
  made->kind = ExprKind::If;
  made->place = expr.place;
  made->children.push_back(binary("<=", clone(*at), integer(0, expr.place)));
  made->children.push_back(children_stable(expr));
  made->children.push_back(call(std::string(kLogOfScaled), std::move(at), call("log", std::move(sum))));
  return made;
}

// The same value, with no exp that overflows on the way where the result does not.
ExprPtr Shifter::stable(const Expr& expr) {
  if (is_binary(expr, "/")) return stable_quotient(expr);
  if (is_function(expr, "log") || is_function(expr, "log2")) return stable_logarithm(expr);
  if (is_function(expr, "log1p")) return stable_log1p(expr);
  if (is_binary(expr, "*") || is_comparison(expr)) {
    const Scale a = scale(*expr.children[0]), b = scale(*expr.children[1]);
    if (!a || !b) return children_stable(expr);
    if (is_binary(expr, "*")) {
      const Scale all = sum_of(a, b);
      ExprPtr parts =
          product(rescaled(*expr.children[0], guarded(a)), rescaled(*expr.children[1], guarded(b)));
      return product(std::move(parts), exp_of(guarded(all).at, all.two, expr.place));
    }
    const Scale m = guarded(extreme_of(a, b, "max"));
    return binary(expr.name, rescaled(*expr.children[0], m), rescaled(*expr.children[1], m));
  }
  if (is_power(expr) || is_root(expr)) {
    const Scale own = scale(expr);
    if (!own) return children_stable(expr);
    return product(rescaled(expr, guarded(own)), exp_of(guarded(own).at, own.two, expr.place));
  }
  const bool chooses = expr.kind == ExprKind::Reduce && (expr.name == "argmax" || expr.name == "argmin");
  if (chooses) {
    ExprPtr value = clone(expr);
    value->name = expr.name == "argmax" ? "max" : "min";
    const Scale own = scale_of_reduction(*value);
    if (!own) return children_stable(expr);
    ExprPtr made = rescaled(*value, guarded(own));
    made->name = expr.name;
    return made;
  }
  return children_stable(expr);
}

Formula shift_exponentials(const Contract& contract, const Formula& formula) {
  Shifter shifter(contract);
  Formula shifted;
  for (const Statement& written : formula.statements) shifter.statement(clone(written), shifted.statements);
  return shifted;
}

}  // namespace assay::reference
