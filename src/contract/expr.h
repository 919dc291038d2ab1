// Trees of formulas, built and changed: what rewriting needs.
#pragma once

#include <map>
#include <set>
#include <string>

#include "contract/formula.h"

namespace assay::contract {

ExprPtr clone(const Expr& expr);
Statement clone(const Statement& statement);
ExprPtr integer(int64_t value, Place place);
ExprPtr real(double value, Place place);
ExprPtr name_of(const std::string& name, Place place);
ExprPtr call(std::string name, ExprPtr argument);
ExprPtr call(std::string name, ExprPtr first, ExprPtr second);
ExprPtr binary(std::string sign, ExprPtr a, ExprPtr b);
ExprPtr minus(ExprPtr a);

bool is_call(const Expr& expr, std::string_view name);
bool is_binary(const Expr& expr, std::string_view sign);
bool is_integer(const Expr& expr, int64_t value);
bool is_literal(const Expr& expr);  // a number, or minus a number

// The names it uses and does not bind.
void free_names(const Expr& expr, std::set<std::string>& bound, std::set<std::string>& found);

// Puts expressions in the place of names that it does not bind.
using Substitution = std::map<std::string, const Expr*, std::less<>>;
void substitute(ExprPtr& expr, const Substitution& what);
// Gives other names to the indices that it binds.
template <class Fresh>  // std::string(const std::string& old)
void rename_binders(ExprPtr& expr, Fresh&& fresh);

// Text that is the same for expressions that differ in nothing but the names of the indices that they bind.
std::string canonical_text(const Expr& expr);

template <class Fresh>
void rename_binders(ExprPtr& expr, Fresh&& fresh) {
  if (expr->kind == ExprKind::Reduce) {
    std::vector<ExprPtr> names;
    Substitution what;
    for (Binder& binder : expr->binders) {
      names.push_back(name_of(fresh(binder.name), binder.place));
      what[binder.name] = names.back().get();
      binder.name = names.back()->name;
    }
    for (ExprPtr& child : expr->children) substitute(child, what);
    for (Binder& binder : expr->binders)
      for (ExprPtr* end : {&binder.low, &binder.high})
        if (*end) substitute(*end, what);
  }
  for (ExprPtr& child : expr->children) rename_binders(child, fresh);
  for (Binder& binder : expr->binders)
    for (ExprPtr* end : {&binder.low, &binder.high})
      if (*end) rename_binders(*end, fresh);
}

}  // namespace assay::contract
