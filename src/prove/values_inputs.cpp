#include "prove/values_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/random.h"
#include "trial/families.h"

namespace assay::prove {

using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// Values that are drawn for an input. A prime: no stride of the kernel's is in step with it.
constexpr int64_t kDrawn = 4099;
constexpr int64_t kPart = 32;  // elements that are made together
// Elements that one evaluation of the formula may make: about half a second's work. A formula that reads more than this
// for a few dozen elements (a sum over a whole giant tensor) is left out.
constexpr int64_t kMostMade = int64_t{1} << 24;

// Indices are spread over all that is legal at every other shape: a handful of equal ones at the only shape with a long table
// would leave most of it unread.
uint64_t family_of(const TensorSpec& input, uint64_t choice) {
  const bool is_integer = contract::info(input.dtype).max_integer != 0;
  if (!is_integer) return choice;
  return choice % 2 == 0 ? 0 : 1 + choice / 2;
}

}  // namespace

Result<ValuesInputs> ValuesInputs::make(const contract::Contract& contract, const contract::Shape& shape,
                                        uint64_t choice) {
  ValuesInputs result;
  result.bindings_.shape = result.trial_.shape = shape;
  result.left_ = kMostMade;
  for (size_t i = 0; i < contract.scalars.size(); ++i) {
    const contract::ScalarSpec& scalar = contract.scalars[i];
    // Whether an optional tensor is given must not follow from whether another is.
    const bool presence = scalar.name.starts_with("present(");
    const uint64_t which = presence ? choice >> (i % 4) : choice;
    const double value = scalar.is_range() ? (which % 2 ? scalar.high : scalar.low)
                                           : scalar.values[which % scalar.values.size()];
    result.bindings_.scalars[scalar.name] = result.trial_.scalars[scalar.name] =
        contract::Scalar::of(scalar.dtype, value);
  }
  for (const TensorSpec* input : contract.inputs()) {
    Values values;
    values.seed = mix(hash(input->name), choice);
    const auto extents = input->extents(shape);
    if (!extents) return extents.error();
    values.count = 1;
    for (const int64_t extent : *extents) values.count *= extent;
    if (input->values.kind == ValuesKind::Offsets) {
      const auto end = input->values.a.eval(shape);
      if (!end) return end.error();
      values.offsets_end = *end;
    } else {
      const std::vector<trial::Family> families = trial::families_for(*input);
      const trial::Family family = families[family_of(*input, choice) % families.size()];
      TensorSpec few = *input;
      few.shape = {contract::IntExpr::literal(kDrawn)};
      few.strides.clear();
      auto drawn = trial::draw(few, shape, family, values.seed);
      if (!drawn) return drawn.error();
      values.drawn = std::move(*drawn);
      result.trial_.families[input->name] = family;
    }
    try {
      values.tensor = std::make_shared<contract::Tensor>(contract::Tensor::zeros(input->dtype, *extents));
    } catch (const std::bad_alloc&) {
      return Error{
          fmt::format("an input of {} elements does not fit into this machine's memory", values.count)};
    }
    values.made.resize(static_cast<size_t>((values.count + kPart - 1) / kPart));
    result.bindings_.inputs[input->name] = values.tensor;
    result.values_[input->name] = std::move(values);
  }
  return result;
}

void ValuesInputs::copy(const TensorSpec& tensor, int64_t first, int64_t count, std::byte* to) const {
  const Values& values = values_.find(tensor.name)->second;
  const auto item = static_cast<size_t>(contract::info(tensor.dtype).bytes);
  for (int64_t i = first; i < first + count; ++i, to += item) {
    if (values.offsets_end < 0) {
      const uint64_t which = mix(static_cast<uint64_t>(i), values.seed) % kDrawn;
      std::memcpy(to, values.drawn.at(static_cast<int64_t>(which)), item);
      continue;
    }
    __extension__ using Wide = __int128;
    const int64_t last = std::max<int64_t>(values.count - 1, 1);
    contract::store_int(tensor.dtype, to, static_cast<int64_t>(Wide{values.offsets_end} * i / last));
  }
}

reference::BudgetOptions ValuesInputs::options(bool tensor_cores) {
  reference::BudgetOptions options;
  options.tensor_cores = tensor_cores;
  options.threads = 1;
  options.on_read = [this](const std::string& input, std::span<const int64_t> elements) {
    return make_read(input, elements);
  };
  return options;
}

bool ValuesInputs::make_read(const std::string& input, std::span<const int64_t> elements) {
  Values& values = values_.find(input)->second;
  TensorSpec spec;
  spec.name = input;
  spec.dtype = values.tensor->dtype;
  for (const int64_t element : elements) {
    const auto part = static_cast<size_t>(element / kPart);
    if (values.made[part]) continue;
    values.made[part] = true;
    const int64_t first = static_cast<int64_t>(part) * kPart, count = std::min(kPart, values.count - first);
    left_ -= count;
    if (left_ < 0) return false;
    copy(spec, first, count, values.tensor->at(first));
  }
  return true;
}

}  // namespace assay::prove
