#include "train/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "contract/formula.h"
#include "reference/reference.h"
#include "trial/trial.h"

namespace assay::train {

using contract::Contract;
using contract::DType;
using contract::IntExpr;
using contract::Shape;
using contract::Tensor;
using contract::TensorSpec;
using reference::Reference;

namespace {

// Values are computed in FP64 from inputs in FP32 or less, and contracts write constants with ten digits or fewer:
// equal formulas agree much better than this, and different ones (another place for eps, erf for tanh) much worse.
constexpr double kSameFunction = 1e-5;  // relative to the root mean square of the output
constexpr int kMostEvaluations = 4000;  // of one slot: tensors of attention in all orders
constexpr std::size_t kMostPacked = 3;  // of the slot's tensors in one of the contract's
constexpr int kLayoutChange = 100, kOtherValues = 10, kOtherName = 1;

// Small, different from each other, and even where halves are taken.
const Shape kSmallDims = {{"T", 6}, {"S", 5}, {"V", 7}, {"D", 4}, {"F", 3},
                          {"H", 2}, {"P", 2}, {"K", 8}, {"N", 9}, {"n", 10}};
const char* const kIndexNames[] = {"i", "j", "k", "l"};

// Far from the usual, so that all of them matter in the result, and different from each other.
double value_for_test(const Slot& slot, const SlotScalar& scalar) {
  const auto number = static_cast<double>(&scalar - slot.scalars.data());
  if (!contract::is_float(scalar.dtype)) return 3;
  return scalar.usual > 10 ? 50 : scalar.usual < 0.05 ? 0.03 + 0.01 * number : 0.75 * scalar.usual;
}

void add_literals(const contract::Expr& expr, std::set<double>& numbers) {
  if (expr.kind == contract::ExprKind::Real) numbers.insert(expr.real);
  if (expr.kind == contract::ExprKind::Integer) numbers.insert(static_cast<double>(expr.integer));
  for (const auto& child : expr.children) add_literals(*child, numbers);
}

// One contract's tensor, and what it can be.
struct Choice {
  std::vector<BoundTensor> parts;  // one, or several of the slot's tensors that it holds
  int changes = 0;
  bool is_plain = true;
};

bool same_kind(DType a, DType b) {
  return contract::is_float(a) == contract::is_float(b);
}

bool can_be(const SlotTensor& tensor, const TensorSpec& spec) {
  const bool role = spec.role == contract::Role::In    ? tensor.role != contract::Role::Out
                    : spec.role == contract::Role::Out ? tensor.role != contract::Role::In
                                                       : tensor.role == contract::Role::InOut;
  return role && same_kind(tensor.dtype, spec.dtype);
}

BoundTensor bound_as(const TensorSpec& spec, const SlotTensor& tensor) {
  BoundTensor bound;
  bound.own = spec.name;
  if (spec.is_input()) bound.from = tensor.name;
  if (spec.is_output()) bound.to = tensor.name;
  return bound;
}

int changes_of(const TensorSpec& spec, const SlotTensor& tensor) {
  const bool has_values = spec.is_input() && !spec.values.text.empty();
  return (spec.name == tensor.name ? 0 : kOtherName) +
         (has_values && spec.values.text.substr(0, 4) != tensor.values.substr(0, 4) ? kOtherValues : 0);
}

// Axes in every order: the slot's axis order[i] is the contract's axis i.
void add_orders(const TensorSpec& spec, const SlotTensor& tensor, std::vector<Choice>& choices) {
  std::vector<std::size_t> order(spec.shape.size());
  std::iota(order.begin(), order.end(), 0);
  while (std::next_permutation(order.begin(), order.end())) {
    Choice choice{{bound_as(spec, tensor)}, changes_of(spec, tensor) + kLayoutChange, false};
    BoundTensor& bound = choice.parts.front();
    bound.indices.assign(kIndexNames, kIndexNames + order.size());
    for (const std::size_t axis : order) bound.subscripts.push_back(IntExpr::dim(kIndexNames[axis]));
    choices.push_back(std::move(choice));
  }
}

std::vector<Choice> single_choices(const TensorSpec& spec, const Slot& slot) {
  std::vector<Choice> choices;
  for (const SlotTensor& tensor : slot.tensors) {
    if (!can_be(tensor, spec)) continue;
    const std::size_t own = spec.shape.size(), slots = tensor.dims.size();
    if (own < slots && own != 1) continue;
    choices.push_back(
        {{bound_as(spec, tensor)}, changes_of(spec, tensor) + (own == slots ? 0 : kOtherName), true});
    if (own == slots && own >= 2 && own <= std::size(kIndexNames)) add_orders(spec, tensor, choices);
  }
  if (spec.role != contract::Role::InOut) return choices;
  for (const SlotTensor& before : slot.tensors)
    for (const SlotTensor& after : slot.tensors) {
      const bool overwritten =
          before.role == contract::Role::In && after.role == contract::Role::Out && before.dims == after.dims;
      if (!overwritten || !same_kind(before.dtype, spec.dtype) || before.dims.size() > spec.shape.size())
        continue;
      Choice choice{{bound_as(spec, before)}, changes_of(spec, before) + kOtherName, true};
      choice.parts.front().to = after.name;
      choices.push_back(std::move(choice));
    }
  return choices;
}

// h[T, 2, F] and h[T, 2 * F]: the axis along which several tensors lie, and how many.
struct Packing {
  std::size_t axis = 0, parts = 0;
  bool own_axis = false;  // [T, 2, F]
};
std::vector<Packing> packings(const TensorSpec& spec) {
  std::vector<Packing> found;
  for (std::size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const IntExpr& extent = spec.shape[axis];
    for (std::size_t parts = 2; parts <= kMostPacked; ++parts) {
      if (extent.is_literal() && *extent.eval({}) == static_cast<int64_t>(parts))
        found.push_back({axis, parts, true});
      if (extent.text().starts_with(fmt::format("{} * ", parts))) found.push_back({axis, parts, false});
    }
  }
  return found;
}

BoundTensor packed_as(const TensorSpec& spec, const SlotTensor& tensor, const Packing& packing,
                      std::size_t part) {
  BoundTensor bound = bound_as(spec, tensor);
  bound.indices.assign(kIndexNames, kIndexNames + tensor.dims.size());
  std::size_t next = 0;
  for (std::size_t axis = 0; axis < spec.shape.size(); ++axis) {
    if (axis == packing.axis && packing.own_axis) {
      bound.subscripts.push_back(IntExpr::literal(static_cast<int64_t>(part)));
    } else if (axis == packing.axis && part > 0) {
      bound.subscripts.push_back(
          *IntExpr::parse(fmt::format("{}{} + {}", part == 1 ? "" : fmt::format("{} * ", part),
                                      tensor.dims[axis], bound.indices[next++])));
    } else {
      bound.subscripts.push_back(IntExpr::dim(bound.indices[next++]));
    }
  }
  return bound;
}

void add_packed(const TensorSpec& spec, const Slot& slot, const Packing& packing, Choice so_far,
                std::vector<Choice>& choices) {
  if (so_far.parts.size() == packing.parts) return choices.push_back(std::move(so_far));
  for (const SlotTensor& tensor : slot.tensors) {
    if (!can_be(tensor, spec) || tensor.dims.size() + (packing.own_axis ? 1 : 0) != spec.shape.size())
      continue;
    if (tensor.dims.size() > std::size(kIndexNames)) continue;
    if (std::ranges::find(so_far.parts, tensor.name, &BoundTensor::slots) != so_far.parts.end()) continue;
    Choice more = so_far;
    more.changes += kLayoutChange;
    more.is_plain = false;
    more.parts.push_back(packed_as(spec, tensor, packing, so_far.parts.size()));
    add_packed(spec, slot, packing, std::move(more), choices);
  }
}

std::vector<Choice> choices_for(const TensorSpec& spec, const Slot& slot) {
  std::vector<Choice> choices = single_choices(spec, slot);
  if (spec.role != contract::Role::InOut)
    for (const Packing& packing : packings(spec)) add_packed(spec, slot, packing, {}, choices);
  std::ranges::stable_sort(choices, {}, &Choice::changes);
  return choices;
}

// The slot as a contract, with the dtypes that the contract's tensors have, and FP64 for what it does not have.
Result<Contract> slot_contract(const Binding& binding, const Contract& own) {
  Slot slot = *binding.slot;
  std::string formula(slot.formula);
  for (SlotTensor& tensor : slot.tensors) {
    const DType usual = tensor.dtype;
    if (contract::is_float(usual)) tensor.dtype = DType::f64;
    for (const BoundTensor& bound : binding.tensors)
      if (bound.from == tensor.name || bound.to == tensor.name) tensor.dtype = own.tensor(bound.own)->dtype;
    if (tensor.role != contract::Role::InOut || tensor.dtype == usual) continue;
    // The stream is rounded as it is stored: residual[t, d] = bf16(…).
    const std::string cast = fmt::format("= {}(", contract::info(usual).name);
    if (const std::size_t at = formula.find(fmt::format("{}[t, d] {}", tensor.name, cast));
        at != std::string::npos)
      formula.replace(formula.find(cast, at), cast.size(),
                      fmt::format("= {}(", contract::info(tensor.dtype).name));
  }
  slot.formula = formula;
  return contract::parse(contract_text(slot), "slot");
}

using Inputs = std::map<std::string, std::shared_ptr<const Tensor>, std::less<>>;

void replace(Inputs& inputs, std::string_view name, const std::function<double(int64_t)>& value) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) return;
  Tensor tensor = *found->second;
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.store(i, value(i));
  found->second = std::make_shared<const Tensor>(std::move(tensor));
}

// Of a backward pass, what the forward pass saved: a contract may compute it from the other inputs instead.
void make_consistent(const Slot& slot, const Shape& shape, const std::set<std::string>& bound,
                     Inputs& inputs) {
  const auto at = [&](const char* name, int64_t i) { return inputs.find(name)->second->load(i); };
  if (slot.name == "cross_entropy_grad") {
    const int64_t tokens = shape.find("T")->second, classes = shape.find("V")->second;
    replace(inputs, "lse", [&](int64_t t) {
      double total = 0;
      for (int64_t c = 0; c < classes; ++c) total += std::exp(at("logits", t * classes + c));
      return std::log(total);
    });
    if (!bound.contains("dloss"))
      replace(inputs, "dloss", [&](int64_t) { return 1.0 / static_cast<double>(tokens); });
  }
  if (slot.name == "attention_grad") {
    const int64_t steps = shape.find("S")->second, width = shape.find("D")->second;
    const auto score = [&](int64_t row, int64_t j) {
      double sum = 0;
      for (int64_t d = 0; d < width; ++d)
        sum += at("q", row * width + d) * at("k", (row / steps * steps + j) * width + d);
      return sum / std::sqrt(static_cast<double>(width));
    };
    replace(inputs, "lse", [&](int64_t row) {
      double total = 0;
      for (int64_t j = 0; j <= row % steps; ++j) total += std::exp(score(row, j));
      return std::log(total);
    });
    replace(inputs, "o", [&](int64_t i) {
      const int64_t row = i / width;
      double total = 0, sum = 0;
      for (int64_t j = 0; j <= row % steps; ++j) {
        total += std::exp(score(row, j));
        sum += std::exp(score(row, j)) * at("v", (row / steps * steps + j) * width + i % width);
      }
      return sum / total;
    });
    replace(inputs, "delta", [&](int64_t row) {
      double sum = 0;
      for (int64_t d = 0; d < width; ++d) sum += at("o", row * width + d) * at("dout", row * width + d);
      return sum;
    });
  }
}

bool agree(const Tensor& a, const Tensor& b) {
  double squares = 0, worst = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.load(i), y = b.load(i);
    if (!std::isfinite(x) || !std::isfinite(y)) return false;
    squares += y * y;
    worst = std::max(worst, std::abs(x - y));
  }
  return worst <= kSameFunction * std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, a.count())));
}

// Looks for the assignment of a contract's tensors to those of one slot under which both compute the same.
class Search {
 public:
  Search(const Contract& contract, const Reference& reference, const Slot& slot)
      : contract_(contract), reference_(reference), slot_(slot) {}

  std::optional<Recognised> run() {
    for (const TensorSpec& spec : contract_.tensors) {
      choices_.push_back(choices_for(spec, slot_));
      if (choices_.back().empty()) return std::nullopt;
    }
    std::set<double> literals;
    for (const contract::Statement& statement : contract_.reference.formula->statements)
      add_literals(*statement.body, literals);
    literals_.assign(literals.begin(), literals.end());
    for (const bool other_layouts : {false, true}) {
      other_layouts_ = other_layouts;
      Recognised start;
      start.binding.slot = &slot_;
      assign(0, start, {}, {});
      if (found_) break;
    }
    return found_;
  }

 private:
  bool is_over() const { return found_ || evaluations_ >= kMostEvaluations; }

  void assign(std::size_t i, const Recognised& so_far, const std::set<std::string>& from,
              const std::set<std::string>& to) {
    if (is_over()) return;
    if (i == contract_.tensors.size()) return complete(so_far, to);
    for (const Choice& choice : choices_[i]) {
      if (!choice.is_plain && !other_layouts_) continue;
      Recognised next = so_far;
      std::set<std::string> next_from = from, next_to = to;
      bool is_free = true;
      for (const BoundTensor& part : choice.parts) {
        is_free &= part.from.empty() || next_from.insert(part.from).second;
        is_free &= part.to.empty() || next_to.insert(part.to).second;
        next.binding.tensors.push_back(part);
      }
      next.changes += choice.changes;
      Binding dims = next.binding;
      Shape fixed;
      if (is_free && add_dims(contract_, dims, fixed)) assign(i + 1, next, next_from, next_to);
    }
  }

  void complete(const Recognised& so_far, const std::set<std::string>& outputs) {
    for (const SlotTensor& tensor : slot_.tensors)
      if (tensor.role != contract::Role::In && !tensor.is_optional &&
          !outputs.contains(std::string(tensor.name)))
        return;
    Recognised next = so_far;
    Shape shape = kSmallDims, fixed;
    if (!add_dims(contract_, next.binding, fixed)) return;
    for (const auto& [dim, extent] : fixed) shape[dim] = extent;
    std::vector<const contract::ScalarSpec*> others;
    for (const contract::ScalarSpec& scalar : contract_.scalars) {
      if (slot_.scalar(scalar.name))
        next.binding.scalars.emplace(scalar.name, scalar.name);
      else
        others.push_back(&scalar);
    }
    assign_scalars(others, 0, next, shape);
  }

  bool is_used(const Binding& binding, std::string_view scalar) const {
    return std::ranges::any_of(binding.scalars, [&](const auto& entry) { return entry.second == scalar; });
  }

  void assign_scalars(const std::vector<const contract::ScalarSpec*>& others, std::size_t i,
                      const Recognised& so_far, const Shape& shape) {
    if (is_over()) return;
    if (i == others.size()) return try_constants(so_far, shape);
    for (const SlotScalar& scalar : slot_.scalars) {
      if (is_used(so_far.binding, scalar.name)) continue;
      Recognised next = so_far;
      next.binding.scalars.emplace(others[i]->name, scalar.name);
      next.changes += kOtherName;
      assign_scalars(others, i + 1, next, shape);
    }
    assign_scalars(others, i + 1, so_far, shape);
  }

  // A scalar of the slot that the contract has as a number in its formula, or not at all.
  void try_constants(const Recognised& so_far, const Shape& shape) {
    std::vector<const SlotScalar*> missing;
    for (const SlotScalar& scalar : slot_.scalars)
      if (!is_used(so_far.binding, scalar.name)) missing.push_back(&scalar);
    Recognised next = so_far;
    for (const SlotScalar* scalar : missing)
      next.binding.constants[std::string(scalar->name)] = scalar->usual;
    evaluate(next, shape);
    if (missing.size() != 1) return;
    for (const double literal : literals_) {
      next.binding.constants.begin()->second = literal;
      evaluate(next, shape);
    }
  }

  void evaluate(const Recognised& whole, const Shape& shape) {
    if (is_over() || !incomplete(contract_, whole.binding).empty()) return;
    ++evaluations_;
    if (computes_the_same(whole.binding, shape)) found_ = whole;
  }

  bool computes_the_same(const Binding& binding, const Shape& shape) const {
    const auto slots = slot_contract(binding, contract_);
    const auto meaning = slots ? Reference::make(*slots) : Result<Reference>(slots.error());
    const auto own_shape = binding.own_shape(shape);
    if (!meaning || !own_shape) return false;
    trial::Trial trial;
    for (const contract::Dim& dim : slots->dims) trial.shape[dim.name] = shape.find(dim.name)->second;
    for (const SlotScalar& scalar : slot_.scalars) {
      const auto constant = binding.constants.find(scalar.name);
      const double value =
          constant == binding.constants.end() ? value_for_test(slot_, scalar) : constant->second;
      trial.scalars[std::string(scalar.name)] = contract::Scalar::of(scalar.dtype, value);
    }
    auto inputs = trial::make_inputs(*slots, trial);
    if (!inputs) return false;
    std::set<std::string> bound;
    for (const BoundTensor& tensor : binding.tensors) bound.insert(tensor.from);
    make_consistent(slot_, trial.shape, bound, inputs->inputs);
    const auto own = own_bindings(binding, *inputs, *own_shape);
    return own && std::ranges::all_of(binding.tensors, [&](const BoundTensor& tensor) {
             return tensor.to.empty() || same_output(binding, tensor, *meaning, *inputs, *own);
           });
  }

  std::optional<contract::Bindings> own_bindings(const Binding& binding, const contract::Bindings& slots,
                                                 const Shape& own_shape) const {
    contract::Bindings own;
    own.shape = own_shape;
    for (const contract::ScalarSpec& spec : contract_.scalars) {
      const auto bound = binding.scalars.find(spec.name);
      const double value = bound == binding.scalars.end()
                               ? spec.values.front()
                               : slots.scalars.find(bound->second)->second.as_double();
      own.scalars[spec.name] = contract::Scalar::of(spec.dtype, value);
    }
    std::map<std::string, Tensor> made;
    for (const BoundTensor& tensor : binding.tensors) {
      if (tensor.from.empty()) continue;
      const auto placement = place(contract_, binding, tensor, slots.shape, own_shape);
      if (!placement) return std::nullopt;
      const DType dtype = contract_.tensor(tensor.own)->dtype;
      const auto zeros = made.try_emplace(tensor.own, Tensor::zeros(dtype, placement->own_extents));
      scatter(*placement, *slots.inputs.find(tensor.from)->second, zeros.first->second);
    }
    for (auto& [name, tensor] : made) own.inputs[name] = std::make_shared<const Tensor>(std::move(tensor));
    return own;
  }

  bool same_output(const Binding& binding, const BoundTensor& tensor, const Reference& meaning,
                   const contract::Bindings& slots, const contract::Bindings& own) const {
    const reference::BudgetOptions one_thread{.tensor_cores = false, .threads = 1};  // a few elements each
    const auto expected = meaning.expect_all(slots, tensor.to, one_thread);
    const auto value = reference_.expect_all(own, tensor.own, one_thread);
    auto placement = place(contract_, binding, tensor, slots.shape, own.shape);
    if (!expected || !value || !placement) return false;
    const Tensor whole = Tensor::of(DType::f64, placement->own_extents, value->value);
    Tensor part = Tensor::zeros(DType::f64, placement->slot_extents);
    gather(*placement, whole, part);
    return agree(part, Tensor::of(DType::f64, placement->slot_extents, expected->value));
  }

  const Contract& contract_;
  const Reference& reference_;
  const Slot& slot_;
  std::vector<std::vector<Choice>> choices_;  // by tensor of the contract
  std::vector<double> literals_;
  bool other_layouts_ = false;
  int evaluations_ = 0;
  std::optional<Recognised> found_;
};

}  // namespace

std::vector<Recognised> recognise(const Contract& contract) {
  std::vector<Recognised> found;
  if (contract.reference.kind != contract::ReferenceKind::Formula) return found;
  const auto reference = Reference::make(contract);
  if (!reference) return found;
  for (const Slot& slot : slots())
    if (auto match = Search(contract, *reference, slot).run()) found.push_back(std::move(*match));
  std::ranges::stable_sort(found, {}, &Recognised::changes);
  return found;
}

}  // namespace assay::train
