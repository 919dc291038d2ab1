#include "contract/expr.h"

#include <fmt/format.h>

#include <algorithm>

namespace assay::contract {

ExprPtr clone(const Expr& expr) {
  auto copy = std::make_unique<Expr>();
  copy->kind = expr.kind;
  copy->place = expr.place;
  copy->name = expr.name;
  copy->integer = expr.integer;
  copy->real = expr.real;
  for (const ExprPtr& child : expr.children) copy->children.push_back(clone(*child));
  for (const Binder& binder : expr.binders)
    copy->binders.push_back({binder.name, binder.place, binder.low ? clone(*binder.low) : nullptr,
                             binder.high ? clone(*binder.high) : nullptr});
  return copy;
}

Statement clone(const Statement& statement) {
  const auto copied = [](const ExprPtr& expr) { return expr ? clone(*expr) : nullptr; };
  Statement copy;
  copy.name = statement.name;
  copy.place = statement.place;
  copy.is_element = statement.is_element;
  copy.kind = statement.kind;
  copy.body = copied(statement.body);
  for (const Left& left : statement.left)
    copy.left.push_back({copied(left.expr), copied(left.low), copied(left.high)});
  for (const Binder& loop : statement.loops)
    copy.loops.push_back({loop.name, loop.place, copied(loop.low), copied(loop.high)});
  return copy;
}

namespace {

ExprPtr make(ExprKind kind, std::string name, Place place) {
  auto made = std::make_unique<Expr>();
  made->kind = kind;
  made->name = std::move(name);
  made->place = place;
  return made;
}

}  // namespace

ExprPtr integer(int64_t value, Place place) {
  ExprPtr made = make(ExprKind::Integer, std::to_string(value), place);
  made->integer = value;
  return made;
}

ExprPtr real(double value, Place place) {
  ExprPtr made = make(ExprKind::Real, fmt::format("{}", value), place);
  made->real = value;
  return made;
}

ExprPtr name_of(const std::string& name, Place place) {
  return make(ExprKind::Name, name, place);
}

ExprPtr call(std::string name, ExprPtr argument) {
  ExprPtr made = make(ExprKind::Call, std::move(name), argument->place);
  made->children.push_back(std::move(argument));
  return made;
}

ExprPtr call(std::string name, ExprPtr first, ExprPtr second) {
  ExprPtr made = call(std::move(name), std::move(first));
  made->children.push_back(std::move(second));
  return made;
}

ExprPtr binary(std::string sign, ExprPtr a, ExprPtr b) {
  ExprPtr made = make(ExprKind::Binary, std::move(sign), a->place);
  made->children.push_back(std::move(a));
  made->children.push_back(std::move(b));
  return made;
}

ExprPtr minus(ExprPtr a) {
  if (a->kind == ExprKind::Unary && a->name == "-") return std::move(a->children[0]);
  ExprPtr made = make(ExprKind::Unary, "-", a->place);
  made->children.push_back(std::move(a));
  return made;
}

bool is_call(const Expr& expr, std::string_view name) {
  return expr.kind == ExprKind::Call && expr.name == name && !expr.children.empty();
}

bool is_binary(const Expr& expr, std::string_view sign) {
  return expr.kind == ExprKind::Binary && expr.name == sign;
}

bool is_integer(const Expr& expr, int64_t value) {
  return (expr.kind == ExprKind::Integer && expr.integer == value) ||
         (expr.kind == ExprKind::Real && expr.real == static_cast<double>(value));
}

bool is_literal(const Expr& expr) {
  if (expr.kind == ExprKind::Unary && expr.name != "not") return is_literal(*expr.children[0]);
  return expr.kind == ExprKind::Integer || expr.kind == ExprKind::Real;
}

void free_names(const Expr& expr, std::set<std::string>& bound, std::set<std::string>& found) {
  std::vector<std::string> added;
  for (const Binder& binder : expr.binders)
    if (bound.insert(binder.name).second) added.push_back(binder.name);
  const bool names = expr.kind == ExprKind::Name || expr.kind == ExprKind::Element;
  if (names && !bound.contains(expr.name)) found.insert(expr.name);
  for (const ExprPtr& child : expr.children) free_names(*child, bound, found);
  for (const Binder& binder : expr.binders)
    for (const ExprPtr* end : {&binder.low, &binder.high})
      if (*end) free_names(**end, bound, found);
  for (const std::string& name : added) bound.erase(name);
}

void substitute(ExprPtr& expr, const Substitution& what) {
  if (expr->kind == ExprKind::Name)
    if (const auto found = what.find(expr->name); found != what.end()) {
      expr = clone(*found->second);
      return;
    }
  const Substitution* inner = &what;
  Substitution rest;
  if (std::ranges::any_of(expr->binders, [&](const Binder& b) { return what.contains(b.name); })) {
    rest = what;
    for (const Binder& binder : expr->binders) rest.erase(binder.name);
    inner = &rest;
  }
  for (ExprPtr& child : expr->children) substitute(child, *inner);
  for (Binder& binder : expr->binders)
    for (ExprPtr* end : {&binder.low, &binder.high})
      if (*end) substitute(*end, *inner);
}

std::string canonical_text(const Expr& expr) {
  ExprPtr copy = clone(expr);
  int count = 0;
  rename_binders(copy, [&](const std::string&) { return fmt::format("#{}", count++); });
  return to_text(*copy);
}

}  // namespace assay::contract
