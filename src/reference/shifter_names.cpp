// What names stand for, and the names that are made up.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "reference/shifter.h"

namespace assay::reference {
namespace {

Statement statement_of(std::string name, std::vector<Left> left, AssignKind kind, ExprPtr body) {
  return {std::move(name), body->place, std::move(left), true, kind, std::move(body), {}};
}

std::vector<Left> copy(const std::vector<Left>& left) {
  std::vector<Left> made;
  for (const Left& one : left)
    made.push_back(
        {clone(*one.expr), one.low ? clone(*one.low) : nullptr, one.high ? clone(*one.high) : nullptr});
  return made;
}

// Gives indices that were made up names to read: as few primes as tell them from those around them.
void tidy(Expr& expr, std::set<std::string>& around) {
  std::vector<std::string> added;
  Substitution what;
  std::vector<ExprPtr> names;
  for (Binder& binder : expr.binders) {
    std::string name = binder.name.substr(0, binder.name.find('\''));
    if (name != binder.name) {
      do name += "'";
      while (around.contains(name));
      names.push_back(name_of(name, binder.place));
      what[binder.name] = names.back().get();
      binder.name = name;
    }
    if (around.insert(binder.name).second) added.push_back(binder.name);
  }
  const auto inside = [&](ExprPtr& part) {
    if (!what.empty()) substitute(part, what);
    tidy(*part, around);
  };
  for (ExprPtr& child : expr.children) inside(child);
  for (Binder& binder : expr.binders)
    for (ExprPtr* end : {&binder.low, &binder.high})
      if (*end) inside(*end);
  for (const std::string& name : added) around.erase(name);
}

void tidy(Statement& written) {
  std::set<std::string> around;
  for (const Left& left : written.left) around.insert(left.expr->name);
  tidy(*written.body, around);
}

}  // namespace

std::string Shifter::fresh(const std::string& name) {
  return fmt::format("{}'{}", name.substr(0, name.find('\'')), ++made_up_);
}

// An element of an assigned tensor as the expression that was assigned; null if that is not known.
ExprPtr Shifter::expanded(const Expr& expr) {
  if (expr.kind != ExprKind::Name && expr.kind != ExprKind::Element) return nullptr;
  const auto found = assigned_.find(expr.name);
  if (found == assigned_.end() || !found->second.body) return nullptr;
  const Assigned& assigned = found->second;
  if (assigned.indices.size() != expr.children.size()) return nullptr;
  for (const auto& [name, then] : assigned.used)
    if (version(name) != then) return nullptr;
  ExprPtr body = clone(*assigned.body);
  rename_binders(body, [this](const std::string& name) { return fresh(name); });
  Substitution what;
  for (std::size_t i = 0; i < assigned.indices.size(); ++i)
    what[assigned.indices[i]] = expr.children[i].get();
  substitute(body, what);
  // An output that is read back may have been rounded on the way.
  if (const TensorSpec* spec = contract_.tensor(expr.name)) {
    if (!is_float(spec->dtype)) return nullptr;
    body = call(std::string(info(spec->dtype).name), std::move(body));
  }
  return body;
}

// `s[i] += e` as s[i] = sum[k](e), if it starts from nothing; null otherwise.
ExprPtr Shifter::as_reduction(const Statement& written, ExprPtr body) const {
  if (written.kind == AssignKind::Set) return body;
  const TensorSpec* spec = contract_.tensor(written.name);
  if (assigned_.contains(written.name) || (spec && spec->is_input())) return nullptr;
  std::set<std::string> bound, names;
  for (const Left& left : written.left) bound.insert(left.expr->name);
  free_names(*body, bound, names);
  auto made = std::make_unique<Expr>();
  made->kind = ExprKind::Reduce;
  made->place = written.place;
  made->name = written.kind == AssignKind::Sum ? "sum" : written.kind == AssignKind::Max ? "max" : "min";
  for (const std::string& name : names)
    if (!names_value(name)) made->binders.push_back({name, written.place, nullptr, nullptr});
  if (made->binders.empty()) return body;
  made->children.push_back(std::move(body));
  return made;
}

void Shifter::remember(const Statement& written, ExprPtr body) {
  Assigned assigned;
  bool plain = true;
  for (const Left& left : written.left) {
    plain &= left.expr->kind == ExprKind::Name && !names_value(left.expr->name);
    assigned.indices.push_back(left.expr->name);
  }
  if (plain) assigned.body = as_reduction(written, std::move(body));
  if (assigned.body) {
    std::set<std::string> bound(assigned.indices.begin(), assigned.indices.end()), names;
    free_names(*assigned.body, bound, names);
    for (const std::string& name : names) assigned.used[name] = version(name);
    assigned.has_exp = has_exp(*assigned.body);
  }
  const bool empty = written.kind == AssignKind::Set && assigned.body && is_integer(*assigned.body, 0);
  if (empty)
    for (const Left& left : written.left)
      if (left.low && is_integer(*left.low, 0)) assigned.extents.push_back(clone(*left.high));
  assigned_[written.name] = std::move(assigned);
  versions_[written.name] = ++clock_;
}

bool Shifter::has_exp(const Expr& expr) const {
  if (is_exp(expr)) return true;
  if (expr.kind == ExprKind::Name || expr.kind == ExprKind::Element) {
    const auto found = assigned_.find(expr.name);
    return found != assigned_.end() && found->second.has_exp;
  }
  return std::ranges::any_of(expr.children, [this](const ExprPtr& child) { return has_exp(*child); });
}

void Shifter::statement(Statement written, std::vector<Statement>& statements) {
  ExprPtr body = stable(*written.body);
  std::swap(written.body, body);
  std::vector<Statement> parts;
  const bool scattered = scatter(written, *body, parts);
  remember(written, std::move(body));
  if (scattered) assigned_[written.name].scattered = assigned_[written.name].has_exp = true;
  tidy(written);
  statements.push_back(std::move(written));
  for (Statement& part : parts) {
    tidy(part);
    statements.push_back(std::move(part));
  }
}

// The extents of what a scatter adds to, which must be empty so far; none if they are not known.
std::vector<ExprPtr> Shifter::extents(const Statement& written) const {
  std::vector<ExprPtr> made;
  const auto before = assigned_.find(written.name);
  if (before != assigned_.end()) {
    for (const ExprPtr& extent : before->second.extents) made.push_back(clone(*extent));
    if (made.empty() && !(before->second.body && is_integer(*before->second.body, 0))) return made;
  }
  const TensorSpec* spec = contract_.tensor(written.name);
  if (!made.empty() || !spec || spec->is_input()) return made;
  for (const IntExpr& extent : spec->shape) {
    Result<Formula> parsed = parse_formula("n = " + extent.text(), written.place, contract_.path);
    if (!parsed || parsed->statements.size() != 1) return {};
    made.push_back(std::move(parsed->statements[0].body));
  }
  return made;
}

bool Shifter::scatter(const Statement& written, const Expr& body, std::vector<Statement>& statements) {
  const bool computed = std::ranges::any_of(written.left, [this](const Left& left) {
    return left.expr->kind != ExprKind::Name || names_value(left.expr->name);
  });
  if (written.kind != AssignKind::Sum || !computed || !written.loops.empty()) return false;
  Scale own = scale(body);
  const std::vector<ExprPtr> shape = extents(written);
  if (!own || shape.size() != written.left.size()) return false;
  const auto empty = [&](std::string_view part, ExprPtr value) {
    std::vector<Left> left;
    for (const ExprPtr& extent : shape)
      left.push_back({name_of(fresh("i"), written.place), integer(0, written.place), clone(*extent)});
    statements.push_back(
        statement_of(written.name + std::string(part), std::move(left), AssignKind::Set, std::move(value)));
  };
  Expr place;
  place.kind = ExprKind::Element;
  place.name = written.name;
  place.place = written.place;
  for (const Left& left : written.left) place.children.push_back(clone(*left.expr));
  own = {in_base(own, false), false};
  const Scale m = guarded({part_of(place, kTop), false});
  ExprPtr rest = rescaled(body, m);
  empty(kTop, minus(real(std::numeric_limits<double>::infinity(), written.place)));
  statements.push_back(
      statement_of(written.name + std::string(kTop), copy(written.left), AssignKind::Max, std::move(own.at)));
  empty(kSum, real(0, written.place));
  statements.push_back(
      statement_of(written.name + std::string(kSum), copy(written.left), AssignKind::Sum, std::move(rest)));
  return true;
}

ExprPtr Shifter::part_of(const Expr& element, std::string_view part) {
  ExprPtr made = clone(element);
  made->name += part;
  return made;
}

}  // namespace assay::reference
