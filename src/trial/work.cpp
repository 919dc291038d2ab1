#include "trial/work.h"

#include <algorithm>
#include <set>

#include "contract/formula.h"

namespace assay::trial {

using contract::Contract;
using contract::Expr;
using contract::ExprKind;
using contract::IntExpr;

namespace {

// The loops of a formula: one for each assignment, over the indices on its left, and one for each reduction,
// over its own indices and those from outside that it mentions.
class Loops {
 public:
  explicit Loops(const Contract& contract) {
    for (const contract::Dim& dim : contract.dims) dims_.insert(dim.name);
    for (const contract::DerivedDim& dim : contract.derived) derived_.emplace(dim.name, dim.value);
    for (const contract::TensorSpec& spec : contract.tensors) extents_[spec.name] = spec.shape;
    for (const contract::Statement& statement : contract.reference.formula->statements) add(statement);
    for (const contract::FormulaCase& one : contract.reference.cases)
      for (const contract::Statement& statement : one.formula->statements) add(statement);
  }

  std::vector<std::vector<IntExpr>> take() { return std::move(found_); }

 private:
  using Names = std::set<std::string>;

  void add(const contract::Statement& statement) {
    ranges_ = derived_;
    const auto known = extents_.find(statement.name);
    // The left side first: ends of ranges on the right may depend on its indices.
    for (std::size_t i = 0; i < statement.left.size(); ++i) {
      const Expr& left = *statement.left[i].expr;
      learn(left);
      if (left.kind == ExprKind::Name && known != extents_.end() && i < known->second.size()) {
        ranges_.try_emplace(left.name, known->second[i]);
      }
    }
    learn(*statement.body);
    Names indices;
    for (const contract::Left& left : statement.left) mention(*left.expr, indices);
    if (statement.kind != contract::AssignKind::Set) mention(*statement.body, indices);
    emit(indices);
    reductions(*statement.body);
    remember(statement);
  }

  // An index runs over the extent that it indexes, or over the range that it is given.
  void learn(const Expr& expr) {
    if (const auto tensor = extents_.find(expr.name);
        expr.kind == ExprKind::Element && tensor != extents_.end()) {
      for (std::size_t i = 0; i < std::min(expr.children.size(), tensor->second.size()); ++i) {
        if (expr.children[i]->kind == ExprKind::Name)
          ranges_.try_emplace(expr.children[i]->name, tensor->second[i]);
      }
    }
    for (const contract::Binder& binder : expr.binders) {
      if (!binder.high) continue;
      // An index in it counts as its own end: sum[s in 0..t + 1] takes at most about as many steps as t has values.
      auto high = IntExpr::parse(contract::to_text(*binder.high), ranges_);
      if (high &&
          std::ranges::all_of(high->dims(), [&](const std::string& dim) { return dims_.contains(dim); }))
        ranges_.try_emplace(binder.name, *high);
    }
    for (const auto& child : expr.children) learn(*child);
  }

  // The indices that an expression mentions; those of reductions in it are its own business.
  void mention(const Expr& expr, Names& names) const {
    if (expr.kind == ExprKind::Name && ranges_.contains(expr.name) && !derived_.contains(expr.name))
      names.insert(expr.name);
    Names inner;
    for (const auto& child : expr.children) mention(*child, inner);
    for (const contract::Binder& binder : expr.binders) inner.erase(binder.name);
    names.merge(inner);
  }

  void reductions(const Expr& expr) {
    for (const auto& child : expr.children) reductions(*child);
    if (expr.kind != ExprKind::Reduce) return;
    Names indices;
    for (const auto& child : expr.children) mention(*child, indices);
    for (const contract::Binder& binder : expr.binders) indices.insert(binder.name);
    emit(indices);
  }

  void emit(const Names& indices) {
    std::vector<IntExpr> loop;
    for (const std::string& name : indices) {
      if (const auto range = ranges_.find(name); range != ranges_.end()) loop.push_back(range->second);
    }
    found_.push_back(std::move(loop));
  }

  // An intermediate tensor is as large as the indices on its left say.
  void remember(const contract::Statement& statement) {
    if (extents_.contains(statement.name)) return;
    std::vector<IntExpr> extents;
    for (const contract::Left& left : statement.left) {
      const auto range = ranges_.find(left.expr->name);
      extents.push_back(range == ranges_.end() ? IntExpr::literal(1) : range->second);
    }
    extents_[statement.name] = std::move(extents);
  }

  Names dims_;
  IntExpr::Named derived_;  // dims
  std::map<std::string, std::vector<IntExpr>, std::less<>> extents_;
  IntExpr::Named ranges_;  // of the statement's indices; and derived dims, which stand for what they are
  std::vector<std::vector<IntExpr>> found_;
};

}  // namespace

Work::Work(const Contract& contract) : contract_(&contract) {
  if (contract.reference.kind == contract::ReferenceKind::Formula) loops_ = Loops(contract).take();
}

Result<Size> Work::of(const contract::Shape& shape) const {
  Result<Size> size = size_of(*contract_, shape);
  if (!size) return size;
  for (const std::vector<IntExpr>& loop : loops_) {
    double steps = 1;
    for (const IntExpr& range : loop) {
      const auto n = range.eval(shape);
      steps *= n ? static_cast<double>(std::max<int64_t>(*n, 0)) : 1;
    }
    size->steps += steps;
  }
  size->steps = std::max(size->steps, size->elements);
  return size;
}

}  // namespace assay::trial
