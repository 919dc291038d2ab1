#include "reference/choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/expr.h"

namespace assay::reference {
namespace {

constexpr std::size_t kMostSeeds = 3;  // scalars that a draw depends on: a seed, an offset, a step

struct ReductionRow {
  std::string_view word;
  ChoiceKind kind;
  bool largest, first_of_equals;
};
constexpr ReductionRow kChoices[] = {
    {"sample", ChoiceKind::Sample, false, false},      {"topk", ChoiceKind::Order, true, false},
    {"topk_first", ChoiceKind::Order, true, true},     {"argsort", ChoiceKind::Order, false, false},
    {"argsort_first", ChoiceKind::Order, false, true},
};

const ReductionRow* row_of(const Expr& expr) {
  if (expr.kind != ExprKind::Reduce) return nullptr;
  const auto found =
      std::ranges::find_if(kChoices, [&](const ReductionRow& row) { return row.word == expr.name; });
  return found == std::end(kChoices) ? nullptr : &*found;
}

bool is_random(const Expr& expr) {
  return is_call(expr, "random");
}

bool is_choice(const Expr& expr) {
  return row_of(expr) || is_random(expr) ||
         (expr.kind == ExprKind::Call && contract::stochastic_rounding(expr.name));
}

const Expr* find_choice(const Expr& expr) {
  if (is_choice(expr)) return &expr;
  for (const ExprPtr& child : expr.children)
    if (const Expr* found = find_choice(*child)) return found;
  for (const Binder& binder : expr.binders)
    for (const ExprPtr* end : {&binder.low, &binder.high})
      if (*end)
        if (const Expr* found = find_choice(**end)) return found;
  return nullptr;
}

ExprPtr element(const std::string& tensor, std::vector<ExprPtr> subscripts, Place place) {
  ExprPtr made = name_of(tensor, place);
  if (subscripts.empty()) return made;
  made->kind = ExprKind::Element;
  made->children = std::move(subscripts);
  return made;
}

class Separation {
 public:
  Separation(const Contract& contract, const Formula& formula) : contract_(contract), formula_(formula) {}

  Result<WithChoices> run() {
    for (const Statement& written : formula_.statements) {
      Statement statement = clone(written);
      if (!failed_) hoist(statement.body, statement, true);
      if (failed_) return error_;
      if (!is_choice(*statement.body)) {
        made_.formula.statements.push_back(std::move(statement));
        continue;
      }
      separate(std::move(statement));
      if (failed_) return error_;
    }
    return std::move(made_);
  }

 private:
  void fail(Place place, std::string message) {
    if (!failed_) error_ = contract_.error_at(place, std::move(message));
    failed_ = true;
  }

  // The extent of an output along one of its left indices, as an expression.
  ExprPtr extent(const TensorSpec& spec, std::size_t at, Place place) const {
    Result<Formula> parsed = contract::parse_formula("q = " + spec.shape[at].text(), place, contract_.path);
    return parsed ? std::move(parsed->statements[0].body) : nullptr;
  }

  // A `random` that is not the whole right side gets a statement of its own before this one.
  void hoist(ExprPtr& expr, const Statement& statement, bool whole) {
    if (failed_ || (whole && is_choice(*expr))) {
      if (!failed_ && !expr->children.empty())
        for (const ExprPtr& child : expr->children)
          if (const Expr* inner = find_choice(*child))
            return fail(inner->place, "a choice cannot depend on another one in the same statement");
      return;
    }
    if (is_random(*expr)) {
      const TensorSpec* spec = contract_.tensor(statement.name);
      const bool plain = spec && spec->is_output() && statement.kind == AssignKind::Set &&
                         statement.left.size() == spec->shape.size() &&
                         std::ranges::all_of(statement.left, [](const Left& left) {
                           return left.expr->kind == ExprKind::Name;
                         });
      if (!plain)
        return fail(expr->place,
                    "give this draw its own statement: keep[i] = random(p), where `keep` is an output or an "
                    "output element shows what was drawn");
      Statement draw = clone(statement);
      draw.name = fmt::format("{}'{}", statement.name, ++hoisted_);
      draw.body = std::move(expr);
      for (std::size_t i = 0; i < draw.left.size(); ++i) {
        draw.left[i].low = integer(0, draw.place);
        draw.left[i].high = extent(*spec, i, draw.place);
      }
      std::vector<ExprPtr> subscripts;
      for (const Left& left : statement.left) subscripts.push_back(clone(*left.expr));
      expr = element(draw.name, std::move(subscripts), draw.place);
      separate(std::move(draw));
      return;
    }
    if (is_choice(*expr))
      return fail(expr->place,
                  fmt::format("`{0}` must be the whole right side of a statement: name[...] = {0}{1}",
                              expr->name, expr->kind == ExprKind::Reduce ? "[k](...)" : "(...)"));
    if (expr->kind == ExprKind::Reduce)
      if (const Expr* inner = find_choice(*expr))
        return fail(inner->place,
                    fmt::format("`{}` cannot be used inside `{}`, whose result does not show what was drawn. "
                                "Give it its own statement, and make that an output",
                                inner->name, expr->name));
    for (ExprPtr& child : expr->children) hoist(child, statement, false);
  }

  void separate(Statement statement) {
    const Expr& body = *statement.body;
    const ReductionRow* row = row_of(body);
    const TensorSpec* spec = contract_.tensor(statement.name);
    Choice choice;
    choice.name = statement.name;
    choice.weights = statement.name + "'";
    choice.place = body.place;
    choice.word = body.name;
    if (statement.kind != AssignKind::Set)
      return fail(statement.place, fmt::format("`{}` is assigned with `=`", body.name));
    for (const Left& left : statement.left)
      if (left.expr->kind != ExprKind::Name || contract_.tensor(left.expr->name) ||
          contract_.dim(left.expr->name))
        return fail(left.expr->place, fmt::format("`{}` takes plain indices on the left", body.name));
    if (spec && !spec->is_output()) spec = nullptr;  // the statement itself is refused
    if (row) {
      choice.kind = row->kind;
      choice.largest = row->largest;
      choice.first_of_equals = row->first_of_equals;
    } else {
      choice.kind = is_random(body) ? ChoiceKind::Random : ChoiceKind::Rounded;
    }
    if (choice.kind != ChoiceKind::Random) {
      if (!spec)
        return fail(statement.place, fmt::format("`{}` must be an output: what `{}` chose is read from it",
                                                 statement.name, body.name));
      const bool wants_float = choice.kind == ChoiceKind::Rounded;
      if (is_float(spec->dtype) != wants_float ||
          (wants_float && spec->dtype != contract::stochastic_rounding(body.name)))
        return fail(body.place,
                    wants_float ? fmt::format("`{}` is {}; write sr_{}(...)", spec->name,
                                              info(spec->dtype).name, info(spec->dtype).name)
                                : fmt::format("`{}` holds indices; give it an integer dtype", spec->name));
    }
    if (row && body.binders.size() != 1)
      return fail(body.place, fmt::format("`{}` takes one index", body.name));
    if (row && row->kind == ChoiceKind::Order && statement.left.empty())
      return fail(statement.place,
                  fmt::format("the last index of `{}` is the position in the order: {}[j] = {}[k](...)",
                              statement.name, statement.name, body.name));
    if (!row && (body.children.empty() || body.children.size() > 1 + kMostSeeds))
      return fail(
          body.place,
          fmt::format(
              "`{}` takes one argument, and the name of the seed if draws depend on one; not {} arguments",
              body.name, body.children.size()));
    for (std::size_t i = 1; !row && i < body.children.size(); ++i) {
      const Expr& seed = *body.children[i];
      const ScalarSpec* scalar = seed.kind == ExprKind::Name ? contract_.scalar(seed.name) : nullptr;
      if (!scalar || is_float(scalar->dtype))
        return fail(
            seed.place,
            i == 1
                ? fmt::format("the second argument of `{}` is the name of an integer scalar, the seed",
                              body.name)
                : fmt::format(
                      "after its first argument, `{}` takes the names of integer scalars, such as the seed",
                      body.name));
      choice.seeds.push_back(seed.name);
    }
    choice.is_output = spec != nullptr;
    if (choice.kind == ChoiceKind::Rounded) choice.dtype = spec->dtype;

    // What it is chosen by.
    Statement weights;
    weights.name = choice.weights;
    weights.place = statement.place;
    weights.is_element = true;
    const std::size_t kept = statement.left.size() - (choice.kind == ChoiceKind::Order ? 1 : 0);
    std::vector<ExprPtr> first;
    for (std::size_t i = 0; i < kept; ++i) {
      Left left{clone(*statement.left[i].expr),
                statement.left[i].low ? clone(*statement.left[i].low) : nullptr,
                statement.left[i].high ? clone(*statement.left[i].high) : nullptr};
      if (!left.low && spec && i < spec->shape.size()) {
        left.low = integer(0, statement.place);
        left.high = extent(*spec, i, statement.place);
      }
      weights.left.push_back(std::move(left));
      first.push_back(clone(*statement.left[i].expr));
    }
    weights.body = clone(*body.children[0]);
    if (row) {
      const Binder& binder = body.binders[0];
      weights.left.push_back({name_of(binder.name, binder.place), binder.low ? clone(*binder.low) : nullptr,
                              binder.high ? clone(*binder.high) : nullptr});
      first.push_back(integer(0, body.place));
      if (body.children.size() > 1) weights.body = filtered(*row, body);
    }
    if (weights.left.empty()) weights.is_element = false;
    // The choice itself, over the same indices.
    const std::string_view word = choice.kind == ChoiceKind::Random    ? kChoiceBool
                                  : choice.kind == ChoiceKind::Rounded ? kChoiceFloat
                                                                       : kChoiceInt;
    statement.body = call(std::string(word), element(choice.weights, std::move(first), choice.place));
    made_.formula.statements.push_back(std::move(weights));
    made_.formula.statements.push_back(std::move(statement));
    made_.choices.push_back(std::move(choice));
  }

  // Where the filter does not hold: no weight, or last in the order.
  static ExprPtr filtered(const ReductionRow& row, const Expr& body) {
    auto made = std::make_unique<Expr>();
    made->kind = ExprKind::If;
    made->place = body.place;
    made->children.push_back(clone(*body.children[1]));
    made->children.push_back(clone(*body.children[0]));
    const double last =
        row.largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    made->children.push_back(row.kind == ChoiceKind::Sample ? integer(0, body.place)
                                                            : real(last, body.place));
    return made;
  }

  const Contract& contract_;
  const Formula& formula_;
  WithChoices made_;
  int hoisted_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace

Result<WithChoices> separate_choices(const Contract& contract, const Formula& formula) {
  return Separation(contract, formula).run();
}

}  // namespace assay::reference
