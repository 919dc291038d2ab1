// The state of a rewriting (shifted.h). Private to it:
//   shifter_names.cpp  what names stand for
//   shifted.cpp        scales, and what is rescaled by them
#pragma once

#include <map>
#include <string>
#include <vector>

#include "contract/formula.h"
#include "reference/scale.h"

namespace assay::reference {

// What a name stands for: an assignment to plain indices, the right side being a value.
struct Assigned {
  std::vector<std::string> indices;
  ExprPtr body;                     // null: not known as an expression
  bool has_exp = false;             // somewhere in it, or in what it names
  std::vector<ExprPtr> extents;     // of `z[i in 0..n] = 0`
  bool scattered = false;           // a sum of exps at computed places: there are kTop and kSum of it
  std::map<std::string, int> used;  // the tensors that it names, and the assignment that it meant
};

class Shifter {
 public:
  explicit Shifter(const Contract& contract) : contract_(contract) {}
  void statement(Statement written, std::vector<Statement>& statements);

 private:
  bool names_value(const std::string& name) const {
    return contract_.dim(name) || contract_.scalar(name) || contract_.tensor(name) ||
           assigned_.contains(name);
  }
  int version(const std::string& name) const {
    const auto found = versions_.find(name);
    return found == versions_.end() ? 0 : found->second;
  }
  std::string fresh(const std::string& name);
  void remember(const Statement& written, ExprPtr body);
  std::vector<ExprPtr> extents(const Statement& written) const;
  bool scatter(const Statement& written, const Expr& body, std::vector<Statement>& statements);
  static ExprPtr part_of(const Expr& element, std::string_view part);
  ExprPtr as_reduction(const Statement& written, ExprPtr body) const;
  ExprPtr expanded(const Expr& expr);
  bool has_exp(const Expr& expr) const;
  bool is_scattered(const Expr& expr) const {
    const auto found = assigned_.find(expr.name);
    return expr.kind == ExprKind::Element && found != assigned_.end() && found->second.scattered;
  }
  bool is_shifted_by_maximum(const Expr& reduction, const Expr& scale);
  bool is_normalised(const Expr& quotient);
  bool is_one_exp(const Expr& expr);

  Scale scale(const Expr& expr, bool of_logarithm = false);
  Scale scale_of_reduction(const Expr& expr);
  ExprPtr rescaled(const Expr& expr, const Scale& m);
  ExprPtr rescaled_quotient(const Expr& expr, const Scale& m);
  ExprPtr stable(const Expr& expr);
  ExprPtr children_stable(const Expr& expr);
  ExprPtr stable_quotient(const Expr& expr);
  ExprPtr stable_logarithm(const Expr& expr);
  ExprPtr stable_log1p(const Expr& expr);

  const Contract& contract_;
  std::map<std::string, Assigned, std::less<>> assigned_;
  std::map<std::string, int, std::less<>> versions_;
  int made_up_ = 0;  // indices
  int clock_ = 0;
};

}  // namespace assay::reference
