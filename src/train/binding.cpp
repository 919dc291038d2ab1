#include "train/binding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

namespace assay::train {

using contract::Contract;
using contract::IntExpr;
using contract::Shape;
using contract::TensorSpec;

namespace {

using Words = std::vector<std::string>;

std::string without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

bool is_word(std::string_view text) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, letter);
}

// "h[t, 0, j]": a name, and what is between its brackets.
struct Element {
  std::string name;
  Words subscripts;
  bool has_brackets = false;
};
std::optional<Element> parse_element(const std::string& text) {
  Element element;
  const std::size_t open = text.find('[');
  element.name = without_blanks(text.substr(0, open));
  if (!is_word(element.name)) return std::nullopt;
  if (open == std::string::npos) return element;
  const std::size_t close = text.rfind(']');
  if (close == std::string::npos || close < open || !without_blanks(text.substr(close + 1)).empty())
    return std::nullopt;
  element.has_brackets = true;
  int depth = 0;
  std::string part;
  for (const char c : text.substr(open + 1, close - open - 1)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      element.subscripts.push_back(without_blanks(part));
      part.clear();
    } else {
      part += c;
    }
  }
  element.subscripts.push_back(without_blanks(part));
  return element;
}

template <class Row>
Words names_of(const std::vector<Row>& rows) {
  Words names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

std::string suggested(const std::string& word, const Words& known) {
  const std::string near = contract::nearest(word, known);
  return near.empty() ? fmt::format("; there are {}", fmt::join(known, ", "))
                      : fmt::format("; did you mean `{}`?", near);
}

bool names_a_dim(const Slot& slot, std::string_view word) {
  for (const SlotTensor& tensor : slot.tensors)
    for (const std::string_view extent : tensor.dims) {
      const std::vector<std::string> dims = IntExpr::parse(extent)->dims();
      if (std::ranges::find(dims, word) != dims.end()) return true;
    }
  return false;
}

// "2 * P": 2 and "P"; "P": 1 and "P".
struct Multiple {
  int64_t factor = 1;
  std::string dim;
};
std::optional<Multiple> as_multiple(const std::string& text) {
  if (is_word(text)) return Multiple{1, text};
  const std::size_t star = text.find('*');
  if (star == std::string::npos) return std::nullopt;
  std::string a = without_blanks(text.substr(0, star)), b = without_blanks(text.substr(star + 1));
  if (is_word(a)) std::swap(a, b);
  const auto factor = IntExpr::parse(a);
  if (!is_word(b) || !factor || !factor->is_literal()) return std::nullopt;
  return Multiple{*factor->eval({}), b};
}

// Reads [workload] against a contract and a slot. The first mistake is the error.
class Binder {
 public:
  Binder(const Contract& contract, const Slot& slot) : contract_(contract), slot_(slot) {
    result_.slot = &slot;
  }

  Result<Binding> run() {
    for (const contract::WorkloadName& name : contract_.workload.tensors)
      if (auto done = add_tensor(name); !done) return done.error();
    if (auto done = add_tensors_by_name(); !done) return done.error();
    for (const contract::WorkloadName& name : contract_.workload.dims)
      if (auto done = add_dim(name); !done) return done.error();
    for (const contract::WorkloadName& name : contract_.workload.scalars)
      if (auto done = add_scalar(name); !done) return done.error();
    for (const contract::ScalarSpec& scalar : contract_.scalars)
      if (slot_.scalar(scalar.name)) result_.scalars.try_emplace(scalar.name, scalar.name);
    Shape fixed;
    if (!add_dims(contract_, result_, fixed)) return error(contract_.workload.place, contradiction());
    if (const std::string missing = incomplete(contract_, result_); !missing.empty())
      return error(contract_.workload.place, missing);
    return std::move(result_);
  }

 private:
  Error error(contract::Place place, std::string text) const {
    return contract_.error_at(place, std::move(text));
  }

  std::string contradiction() const {
    return fmt::format(
        "the contract's dims do not fit the slot `{}`: a dim would have two values; map the tensors with "
        "tensors = {{ … }} in [workload]",
        slot_.name);
  }

  Result<void> add_tensor(const contract::WorkloadName& name) {
    const auto own = parse_element(name.own);
    const std::size_t arrow = name.slots.find("->");
    const auto slots = parse_element(name.slots.substr(0, arrow));
    const std::string after = arrow == std::string::npos ? "" : without_blanks(name.slots.substr(arrow + 2));
    if (!own) return error(name.own_place, "this is written as `tensor` or `tensor[subscript, …]`");
    if (!slots || (arrow != std::string::npos && !is_word(after)))
      return error(name.slots_place,
                   "this is written as \"tensor\", \"tensor[index, …]\" or \"before -> after\"");
    const TensorSpec* spec = contract_.tensor(own->name);
    if (!spec)
      return error(name.own_place, fmt::format("`{}` is not a tensor of the contract{}", own->name,
                                               suggested(own->name, names_of(contract_.tensors))));
    for (const std::string& word : {slots->name, after})
      if (!word.empty() && !slot_.tensor(word))
        return error(name.slots_place, fmt::format("`{}` is not a tensor of the slot `{}`{}", word,
                                                   slot_.name, suggested(word, names_of(slot_.tensors))));
    BoundTensor bound;
    bound.own = spec->name;
    if (spec->is_input()) bound.from = slots->name;
    if (spec->is_output()) bound.to = after.empty() ? slots->name : after;
    if (!after.empty() && spec->role != contract::Role::InOut)
      return error(name.slots_place,
                   fmt::format("`{}` is not overwritten: its role is not \"inout\"", spec->name));
    if (auto done = add_subscripts(name, *own, *slots, *spec, bound); !done) return done;
    return add(name.slots_place, std::move(bound));
  }

  Result<void> add_subscripts(const contract::WorkloadName& name, const Element& own, const Element& slots,
                              const TensorSpec& spec, BoundTensor& bound) {
    if (!own.has_brackets && !slots.has_brackets) return {};
    const std::size_t rank = slot_.tensor(slots.name)->dims.size();
    if (slots.subscripts.size() != rank || !std::ranges::all_of(slots.subscripts, is_word))
      return error(name.slots_place,
                   fmt::format("`{}` has {} indices: write a name for each", slots.name, rank));
    if (own.subscripts.size() != spec.shape.size())
      return error(name.own_place, fmt::format("`{}` has {} subscripts, not {}", spec.name, spec.shape.size(),
                                               own.subscripts.size()));
    bound.indices = slots.subscripts;
    for (const std::string& text : own.subscripts) {
      auto expr = IntExpr::parse(text);
      if (!expr) return error(name.own_place, fmt::format("in `{}`: {}", text, expr.error().message));
      for (const std::string& word : expr->dims()) {
        const bool known = std::ranges::find(bound.indices, word) != bound.indices.end() ||
                           contract_.dim(word) || names_a_dim(slot_, word);
        if (!known)
          return error(name.own_place,
                       fmt::format("`{}` is neither an index of `{}` nor a dim", word, name.slots));
      }
      bound.subscripts.push_back(std::move(*expr));
    }
    return {};
  }

  // Whether the slot's tensors can play these parts, and do not already.
  Result<void> add(contract::Place place, BoundTensor bound) {
    if (!bound.from.empty() && slot_.tensor(bound.from)->role == contract::Role::Out)
      return error(place, fmt::format("`{}` is an output of the slot `{}`, but `{}` is read", bound.from,
                                      slot_.name, bound.own));
    if (!bound.to.empty() && slot_.tensor(bound.to)->role == contract::Role::In)
      return error(place, fmt::format("`{}` is an input of the slot `{}`, but `{}` is written", bound.to,
                                      slot_.name, bound.own));
    for (const BoundTensor& other : result_.tensors)
      if ((!bound.from.empty() && other.from == bound.from) || (!bound.to.empty() && other.to == bound.to))
        return error(place, fmt::format("`{}` and `{}` are both bound to the slot's `{}`", other.own,
                                        bound.own, bound.slots()));
    const contract::DType dtype = contract_.tensor(bound.own)->dtype;
    for (const std::string& slots : {bound.from, bound.to})
      if (!slots.empty() && contract::is_float(slot_.tensor(slots)->dtype) != contract::is_float(dtype))
        return error(place, fmt::format("`{}` is {}, and `{}` of the slot holds {}", bound.own,
                                        contract::info(dtype).name, slots,
                                        contract::is_float(dtype) ? "integers" : "real numbers"));
    result_.tensors.push_back(std::move(bound));
    return {};
  }

  Result<void> add_tensors_by_name() {
    for (const TensorSpec& spec : contract_.tensors) {
      if (std::ranges::find(result_.tensors, spec.name, &BoundTensor::own) != result_.tensors.end()) continue;
      if (!slot_.tensor(spec.name))
        return error(spec.place,
                     fmt::format("the slot `{}` has no tensor `{}`, but {}; name it: [workload] "
                                 "tensors = {{ {} = \"…\" }}",
                                 slot_.name, spec.name, fmt::join(names_of(slot_.tensors), ", "), spec.name));
      BoundTensor bound;
      bound.own = spec.name;
      if (spec.is_input()) bound.from = spec.name;
      if (spec.is_output()) bound.to = spec.name;
      if (auto done = add(spec.place, std::move(bound)); !done) return done;
    }
    return {};
  }

  Result<void> add_dim(const contract::WorkloadName& name) {
    if (!contract_.dim(name.own))
      return error(name.own_place, fmt::format("`{}` is not a dim of the contract{}", name.own,
                                               suggested(name.own, names_of(contract_.dims))));
    auto expr = IntExpr::parse(name.slots);
    if (!expr) return error(name.slots_place, fmt::format("in `{}`: {}", name.slots, expr.error().message));
    for (const std::string& word : expr->dims())
      if (!names_a_dim(slot_, word))
        return error(name.slots_place, fmt::format("`{}` is not a dim of the slot `{}`", word, slot_.name));
    result_.dims.emplace(name.own, std::move(*expr));
    return {};
  }

  Result<void> add_scalar(const contract::WorkloadName& name) {
    if (!contract_.scalar(name.own))
      return error(name.own_place, fmt::format("`{}` is not a scalar of the contract{}", name.own,
                                               suggested(name.own, names_of(contract_.scalars))));
    if (!slot_.scalar(name.slots))
      return error(name.slots_place, fmt::format("`{}` is not a scalar of the slot `{}`{}", name.slots,
                                                 slot_.name, suggested(name.slots, names_of(slot_.scalars))));
    result_.scalars.emplace(name.own, name.slots);
    return {};
  }

  const Contract& contract_;
  const Slot& slot_;
  Binding result_;
};

// The extent of the contract's tensor is that of the slot's. False: a dim has another value already.
bool unify(const Contract& contract, const IntExpr& own, std::string_view slots, Binding& binding,
           Shape& fixed) {
  const auto whole = as_multiple(std::string(slots));
  if (own.is_literal()) {
    if (!whole) return true;
    const int64_t extent = *own.eval({});
    return extent % whole->factor == 0 &&
           fixed.try_emplace(whole->dim, extent / whole->factor).first->second == extent / whole->factor;
  }
  auto part = as_multiple(own.text());
  if (!part || !contract.dim(part->dim)) return true;  // place() compares the extents of each call
  std::string text(slots);
  if (part->factor != 1) {
    if (!whole || whole->factor % part->factor != 0) return true;
    const int64_t factor = whole->factor / part->factor;
    text = factor == 1 ? whole->dim : fmt::format("{} * {}", factor, whole->dim);
  }
  const auto expr = IntExpr::parse(text);
  return binding.dims.try_emplace(part->dim, *expr).first->second.text() == expr->text();
}

std::string product_of_extents(const std::vector<std::string_view>& extents) {
  std::string text;
  for (const std::string_view extent : extents) text += (text.empty() ? "" : " * ") + std::string(extent);
  return text;
}

Shape both_shapes(const Shape& slot_shape, const Shape& own_shape) {
  Shape shape = own_shape;
  shape.insert(slot_shape.begin(), slot_shape.end());  // a dim of both is the contract's
  return shape;
}

int64_t elements_in(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

// Calls use(slot element, own element, elements) for runs that are contiguous in both.
template <class Use>
void each_run(const Placement& placement, Use use) {
  const int64_t count = elements_in(placement.slot_extents);
  if (count == 0) return;
  if (placement.offsets.empty()) return use(0, 0, count);
  const std::vector<int64_t>& inner = placement.offsets.back();
  const int64_t width = static_cast<int64_t>(inner.size()), rows = count / width;
  const bool contiguous =
      width == 1 || (inner[1] - inner[0] == 1 && inner.back() - inner.front() == width - 1 &&
                     std::ranges::is_sorted(inner));
  for (int64_t row = 0; row < rows; ++row) {
    int64_t own = placement.base, rest = row;
    for (std::size_t axis = placement.offsets.size() - 1; axis-- > 0;) {
      own += placement.offsets[axis][static_cast<std::size_t>(rest % placement.slot_extents[axis])];
      rest /= placement.slot_extents[axis];
    }
    if (contiguous) {
      use(row * width, own + inner.front(), width);
    } else {
      for (int64_t i = 0; i < width; ++i) use(row * width + i, own + inner[static_cast<std::size_t>(i)], 1);
    }
  }
}

}  // namespace

Result<Shape> Binding::own_shape(const Shape& slot_shape) const {
  Shape shape;
  for (const auto& [name, expr] : dims) {
    auto value = expr.eval(slot_shape);
    if (!value) return Error{fmt::format("the dim `{}`: {}", name, value.error().message)};
    shape.emplace(name, *value);
  }
  return shape;
}

Result<Binding> bind(const Contract& contract, const Slot& slot) {
  return Binder(contract, slot).run();
}

bool add_dims(const Contract& contract, Binding& binding, Shape& fixed) {
  const Words given = [&] {
    Words names;
    for (const auto& [name, expr] : binding.dims) names.push_back(name);
    return names;
  }();
  const auto agrees = [&](const IntExpr& own, std::string_view slots) {
    const auto part = as_multiple(own.text());
    // What the contract says itself is not questioned here.
    if (part && std::ranges::find(given, part->dim) != given.end()) return true;
    return unify(contract, own, slots, binding, fixed);
  };
  for (const BoundTensor& bound : binding.tensors) {
    const std::vector<IntExpr>& own = contract.tensor(bound.own)->shape;
    const std::vector<std::string_view>& slots = binding.slot->tensor(bound.slots())->dims;
    if (!bound.indices.empty()) {
      for (std::size_t i = 0; i < own.size(); ++i) {
        const auto index = std::ranges::find(bound.indices, bound.subscripts[i].text());
        if (index == bound.indices.end()) continue;
        if (!agrees(own[i], slots[static_cast<std::size_t>(index - bound.indices.begin())])) return false;
      }
    } else if (own.size() == 1) {
      if (!agrees(own[0], product_of_extents(slots))) return false;
    } else if (own.size() >= slots.size()) {
      const std::size_t more = own.size() - slots.size();
      for (std::size_t i = 0; i < more; ++i)
        if (!agrees(own[i], "1")) return false;
      for (std::size_t i = 0; i < slots.size(); ++i)
        if (!agrees(own[more + i], slots[i])) return false;
    }
  }
  for (const contract::Dim& dim : contract.dims) {
    if (binding.dims.contains(dim.name)) continue;
    if (dim.is_constant())
      binding.dims.emplace(dim.name, IntExpr::literal(dim.min));
    else if (names_a_dim(*binding.slot, dim.name))
      binding.dims.emplace(dim.name, IntExpr::dim(dim.name));
  }
  return true;
}

std::string incomplete(const Contract& contract, const Binding& binding) {
  for (const SlotTensor& tensor : binding.slot->tensors) {
    if (tensor.role == contract::Role::In || tensor.is_optional) continue;
    if (std::ranges::find(binding.tensors, tensor.name, &BoundTensor::to) == binding.tensors.end())
      return fmt::format(
          "no tensor of the contract is the output `{}` of the slot `{}`; name it with tensors = "
          "{{ NAME = \"{}\" }} in [workload]",
          tensor.name, binding.slot->name, tensor.name);
  }
  for (const contract::Dim& dim : contract.dims)
    if (!binding.dims.contains(dim.name))
      return fmt::format(
          "the dim `{}` does not follow from the slot `{}`; define it with dims = {{ {} = \"…\" }} "
          "in [workload]",
          dim.name, binding.slot->name, dim.name);
  for (const contract::ScalarSpec& scalar : contract.scalars)
    if (!binding.scalars.contains(scalar.name) && scalar.values.size() != 1)
      return fmt::format(
          "the slot `{}` has no scalar `{}`; give it a single value, or map it with scalars = {{ {} = \"…\" "
          "}} in [workload]",
          binding.slot->name, scalar.name, scalar.name);
  return "";
}

std::string to_toml(const Binding& binding) {
  const auto quoted = [](const std::string& text) { return is_word(text) ? text : "\"" + text + "\""; };
  Words tensors, dims, scalars;
  for (const BoundTensor& bound : binding.tensors) {
    std::string own = bound.own, slots = bound.slots();
    if (!bound.indices.empty()) {
      Words subscripts;
      for (const IntExpr& subscript : bound.subscripts) subscripts.push_back(subscript.text());
      own += fmt::format("[{}]", fmt::join(subscripts, ", "));
      slots += fmt::format("[{}]", fmt::join(bound.indices, ", "));
    }
    if (!bound.from.empty() && !bound.to.empty() && bound.from != bound.to) slots += " -> " + bound.to;
    if (own != slots) tensors.push_back(fmt::format("{} = \"{}\"", quoted(own), slots));
  }
  for (const auto& [own, expr] : binding.dims)
    if (own != expr.text()) dims.push_back(fmt::format("{} = \"{}\"", own, expr.text()));
  for (const auto& [own, slots] : binding.scalars)
    if (own != slots) scalars.push_back(fmt::format("{} = \"{}\"", own, slots));
  std::string text = fmt::format("[workload]\nslot = \"{}\"\n", binding.slot->name);
  if (!tensors.empty()) text += fmt::format("tensors = {{ {} }}\n", fmt::join(tensors, ", "));
  if (!dims.empty()) text += fmt::format("dims = {{ {} }}\n", fmt::join(dims, ", "));
  if (!scalars.empty()) text += fmt::format("scalars = {{ {} }}\n", fmt::join(scalars, ", "));
  return text;
}

Result<Placement> place(const Contract& contract, const Binding& binding, const BoundTensor& bound,
                        const Shape& slot_shape, const Shape& own_shape) {
  Placement placement;
  const SlotTensor& slots = *binding.slot->tensor(bound.slots());
  for (const std::string_view extent : slots.dims) {
    const auto value = IntExpr::parse(extent)->eval(slot_shape);
    if (!value) return value.error();
    placement.slot_extents.push_back(*value);
  }
  auto own = contract.tensor(bound.own)->extents(own_shape);
  if (!own) return own.error();
  placement.own_extents = std::move(*own);
  if (bound.indices.empty()) {
    if (elements_in(placement.own_extents) == elements_in(placement.slot_extents)) return placement;
    return Error{fmt::format("`{}` has the extents [{}] there, but the slot's `{}` has [{}]", bound.own,
                             fmt::join(placement.own_extents, ", "), slots.name,
                             fmt::join(placement.slot_extents, ", "))};
  }
  // Each subscript is a sum of terms of one index each, so that a table for each index says where elements are.
  const std::size_t rank = placement.own_extents.size(), axes = bound.indices.size();
  Shape at = both_shapes(slot_shape, own_shape);
  for (const std::string& index : bound.indices) at[index] = 0;
  std::vector<int64_t> first(rank), strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * placement.own_extents[i];
  std::vector<int64_t> low(rank), high(rank);
  const auto subscript = [&](std::size_t i) { return bound.subscripts[i].eval(at); };
  for (std::size_t i = 0; i < rank; ++i) {
    const auto value = subscript(i);
    if (!value) return Error{fmt::format("`{}`: {}", bound.own, value.error().message)};
    first[i] = low[i] = high[i] = *value;
    placement.base += *value * strides[i];
  }
  placement.offsets.resize(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<int64_t> least(rank, 0), most(rank, 0);
    for (int64_t n = 0; n < placement.slot_extents[axis]; ++n) {
      at[bound.indices[axis]] = n;
      int64_t offset = 0;
      for (std::size_t i = 0; i < rank; ++i) {
        const auto value = subscript(i);
        if (!value) return Error{fmt::format("`{}`: {}", bound.own, value.error().message)};
        const int64_t step = *value - first[i];
        least[i] = std::min(least[i], step);
        most[i] = std::max(most[i], step);
        offset += step * strides[i];
      }
      placement.offsets[axis].push_back(offset);
    }
    at[bound.indices[axis]] = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      low[i] += least[i];
      high[i] += most[i];
    }
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (low[i] >= 0 && high[i] < placement.own_extents[i]) continue;
    return Error{fmt::format("the subscript `{}` of `{}` goes from {} to {}, but the extent is {}",
                             bound.subscripts[i].text(), bound.own, low[i], high[i],
                             placement.own_extents[i])};
  }
  // The last element shows a subscript that mixes indices, such as (t * F + j) / 2.
  int64_t last = placement.base, expected = 0;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (placement.offsets[axis].empty()) return placement;
    at[bound.indices[axis]] = placement.slot_extents[axis] - 1;
    last += placement.offsets[axis].back();
  }
  for (std::size_t i = 0; i < rank; ++i) expected += *subscript(i) * strides[i];
  if (last != expected)
    return Error{fmt::format("a subscript of `{}` combines indices; write a sum of terms with one index each",
                             bound.own)};
  return placement;
}

void scatter(const Placement& placement, const contract::Tensor& slots, contract::Tensor& own) {
  const auto bytes = static_cast<std::size_t>(own.item_bytes());
  each_run(placement, [&](int64_t from, int64_t to, int64_t elements) {
    std::memcpy(own.at(to), slots.at(from), bytes * static_cast<std::size_t>(elements));
  });
}

void gather(const Placement& placement, const contract::Tensor& own, contract::Tensor& slots) {
  const auto bytes = static_cast<std::size_t>(own.item_bytes());
  each_run(placement, [&](int64_t to, int64_t from, int64_t elements) {
    std::memcpy(slots.at(to), own.at(from), bytes * static_cast<std::size_t>(elements));
  });
}

}  // namespace assay::train
